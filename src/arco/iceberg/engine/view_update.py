"""Commits to views: what a client demands of the view, and what is to become of it.

Updates and requirements are JSON, told apart by a field each. One that we do not know is refused, since
leaving it out would be another change than the one that was asked for.
"""

from collections.abc import Callable, Sequence

from arco.core.errors import Conflict, Invalid
from arco.core.json import Json
from arco.iceberg.engine import shape
from arco.iceberg.engine.metadata import Metadata
from arco.iceberg.engine.shape import Object
from arco.iceberg.engine.view_draft import ViewDraft


def check_view_requirements(base: Metadata | None, requirements: Sequence[Json]) -> None:
    """`Conflict` if the view (None: there is none) is not what one of the requirements says."""
    for requirement in requirements:
        demand = shape.as_object(requirement, "a requirement")
        kind = shape.text(demand, "type", "a requirement")
        if kind == "assert-view-uuid":
            _assert_uuid(base, shape.text(demand, "uuid", kind))
        elif kind == "assert-create":
            if base is not None:
                raise Conflict("Requirement failed: view already exists")
        else:
            raise Invalid(f"Cannot validate the requirement {kind[:80]!r} against a view")


def _assert_uuid(base: Metadata | None, uuid: str) -> None:
    if base is None:
        raise Conflict(f"Requirement failed: view does not exist, expected UUID {uuid[:80]}")
    current = shape.text(base, "view-uuid", "the view")
    if current.lower() != uuid.lower():
        raise Conflict(
            f"Requirement failed: view UUID does not match: expected {current} != {uuid[:80]}"
        )


def apply_view_updates(base: Metadata | None, updates: Sequence[Json], *, now_ms: int) -> Metadata:
    """The view after the updates, in their order; `base` itself if they change nothing."""
    try:
        draft = ViewDraft(base, now_ms)
        for update in updates:
            _apply(draft, shape.as_object(update, "an update"))
        return draft.finished()
    except RecursionError as problem:
        raise Invalid("JSON is nested too deeply") from problem


def _apply(draft: ViewDraft, update: Object) -> None:
    # As it is written: whoever checks what an update may do must see the same one as we do.
    action = shape.text(update, "action", "an update")
    apply = _ACTIONS.get(action)
    if apply is None:
        raise Invalid(f"Cannot apply the update {action[:80]!r} to a view")
    apply(draft, update)


def _assign_uuid(draft: ViewDraft, update: Object) -> None:
    draft.assign_uuid(shape.text(update, "uuid", "assign-uuid"))


def _upgrade_format_version(draft: ViewDraft, update: Object) -> None:
    wanted = shape.integer(update, "format-version", "upgrade-format-version")
    draft.upgrade_format_version(wanted)


def _add_schema(draft: ViewDraft, update: Object) -> None:
    draft.add_schema(update.get("schema"))


def _set_location(draft: ViewDraft, update: Object) -> None:
    draft.set_location(shape.text(update, "location", "set-location"))


def _set_properties(draft: ViewDraft, update: Object) -> None:
    # Clients of long ago say `updated` and `removed`.
    key = "updates" if "updates" in update or "updated" not in update else "updated"
    draft.set_properties(shape.texts(update, key, "set-properties"))


def _remove_properties(draft: ViewDraft, update: Object) -> None:
    key = "removals" if "removals" in update or "removed" not in update else "removed"
    found = shape.array(update, key, "remove-properties")
    draft.remove_properties([shape.as_text(each, f"each of {key}") for each in found])


def _add_view_version(draft: ViewDraft, update: Object) -> None:
    draft.add_version(update.get("view-version"))


def _set_current_view_version(draft: ViewDraft, update: Object) -> None:
    number = shape.integer(update, "view-version-id", "set-current-view-version")
    draft.set_current_version(number)


_ACTIONS: dict[str, Callable[[ViewDraft, Object], None]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade_format_version,
    "add-schema": _add_schema,
    "set-location": _set_location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "add-view-version": _add_view_version,
    "set-current-view-version": _set_current_view_version,
}
