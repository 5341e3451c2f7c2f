"""What the verbs do that look back: bring back what was dropped, tell what became of it, what changed."""

from shlex import quote

import msgspec

from arco.catalog.name import parse_dotted
from arco.cli.listing import print_items, print_rows
from arco.cli.refusal import advise
from arco.cli.remote import Remote, path
from arco.cli.target import Kind, Target
from arco.cli.things import Change, Thing, Version
from arco.cli.verbs import children, decoded, print_raw
from arco.cli.view import rows_of_changes, rows_of_versions
from arco.core import json
from arco.core.errors import Invalid, NotFound


def undrop(
    remote: Remote,
    kind: Kind,
    target: Target | None,
    object_id: str | None,
    name: str | None,
    *,
    as_json: bool,
) -> None:
    """Bring back what was dropped last under a name, or what has an id."""
    found = _dropped(remote, kind, _one_of(target, object_id, kind))
    wish = {} if name is None else {"name": name}
    answer = remote.change("POST", path("objects", found, "undrop"), wish)
    if as_json:
        print_raw(answer)
    else:
        print(f"Brought back {kind} {json.decode(answer, Thing).full_name}.")


def history(
    remote: Remote, kind: Kind, target: Target | None, object_id: str | None, *, as_json: bool
) -> None:
    """Print what became of an object, newest first."""
    given = _one_of(target, object_id, kind)
    if isinstance(given, Target):
        given = json.decode(remote.get(path(*given.url)), Thing).id
    pages = remote.pages(path("objects", given, "history"))
    if as_json:
        print_items(pages)
        return
    versions = [each for page in decoded(pages, Version) for each in page]
    print_rows(("VERSION", "WHEN", "WHO", "WHAT", "CHANGED"), [rows_of_versions(versions)])


def diff(
    remote: Remote, kind: Kind, target: Target | None, start: str, end: str | None, *, as_json: bool
) -> None:
    """Print what changed between two points: objects of one kind, or one of them and all it holds."""
    wanted = None if target is None else _Family(remote, target, start, end)
    pages = remote.pages("/diff", {"from": start, "to": end})
    kept = ([each for each in page if _is_wanted(each, kind, wanted)] for page in pages)
    if as_json:
        print_items(kept)
        return
    headings = ("VERSION", "CHANGE", "KIND", "NAME", "CHANGED")
    print_rows(headings, (rows_of_changes(page) for page in decoded(kept, Change)))


class _Family:
    """An object and what lies in it, by its names at both points: it may have been renamed between."""

    def __init__(self, remote: Remote, target: Target, start: str, end: str | None) -> None:
        other: str | None = start
        try:
            now = json.decode(remote.get(path(*target.url), {"as_of": end}), Thing)
        except NotFound:
            now = json.decode(remote.get(path(*target.url), {"as_of": start}), Thing)
            other = end
        self.id = now.id
        self.names = {parse_dotted(now.full_name)}
        try:
            raw = remote.get(path("objects", now.id), {"as_of": other})
        except NotFound:
            return  # it is there at one of the points alone
        self.names.add(parse_dotted(json.decode(raw, Thing).full_name))

    def holds(self, change: Change) -> bool:
        """Whether a change is about one of them."""
        parts = parse_dotted(change.name)
        return change.id == self.id or any(parts[: len(name)] == name for name in self.names)


def _is_wanted(raw: msgspec.Raw, kind: Kind, family: _Family | None) -> bool:
    change = json.decode(bytes(raw), Change)
    if family is not None:
        return family.holds(change)
    return change.kind.lower() in _kinds(kind)


def _dropped(remote: Remote, kind: Kind, given: Target | str) -> str:
    """The id of what is to come back; an id has to be one of the command's kind."""
    if isinstance(given, Target):
        return _dropped_last(remote, given)
    raw = remote.get(path("objects", given), {"dropped": "true"})
    found = json.decode(raw, Thing).kind.lower()
    if found not in _kinds(kind):
        raise Invalid(f"{given} is a {found}: use `arco {found} undrop`")
    return given


def _dropped_last(remote: Remote, target: Target) -> str:
    kind = target.kind
    parent = None if kind is Kind.CATALOG else target.parent
    pages = decoded(children(remote, kind, parent, {"dropped": "true"}), Thing)
    found = [each for page in pages for each in page if each.name == target.name]
    if not found:
        hint = "" if parent is None else f" {quote(str(parent))}"
        raise advise(
            NotFound(f"no {kind} {target} was dropped, or it was too long ago"),
            f"`arco {kind} list{hint} --dropped` lists what can come back.",
        )
    return max(found, key=lambda each: each.commit).id


def _kinds(kind: Kind) -> set[str]:
    """Tables and views share their commands, as they share their names."""
    return {"table", "view"} if kind is Kind.TABLE else {kind.value}


def _one_of(target: Target | None, object_id: str | None, kind: Kind) -> Target | str:
    """What was named, one way or the other."""
    if target is not None and object_id is None:
        return target
    if object_id is not None and target is None:
        return object_id
    raise Invalid(f"which {kind}? Give its name or its --id, and not both")
