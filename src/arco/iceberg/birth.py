"""Births: what is about to be made, under which name, and why it may not be."""

from collections.abc import Callable
from dataclasses import dataclass

from arco.catalog.ddl import AttachTable
from arco.catalog.model import ObjectKind, TableRow
from arco.core.errors import AlreadyExists, ArcoError, Conflict, NotFound
from arco.iceberg.attempt import current_schema, properties_of
from arco.iceberg.desk import Caller, Desk
from arco.iceberg.engine.columns import columns_of
from arco.iceberg.engine.metadata import Metadata
from arco.iceberg.keyed import in_own_words
from arco.iceberg.names import Name
from arco.iceberg.pointer import Pointer
from arco.iceberg.refusal import Refused, commit_failed, dotted, exists, no_such_namespace
from arco.iceberg.table_paths import paths_beside


@dataclass(frozen=True)
class Newborn:
    """The metadata of something new, and where they are if they are stored already."""

    metadata: Metadata
    location: str | None = None
    also: frozenset[str] = frozenset()  # other ids than its own whose place it may have


@dataclass(frozen=True)
class Birth:
    """What is made, by whom, under which name. `make` builds it for an id."""

    name: Name
    kind: ObjectKind
    caller: Caller
    operation: str
    make: Callable[[str], Newborn]
    wanted_id: str | None = None  # what was staged, or tried out, has its id already
    is_required: bool = False  # whether a taken name fails a requirement

    def attach(self, desk: Desk, table_id: str, pointer: Pointer) -> AttachTable:
        """How the catalog is asked for the name."""
        newborn = self.make(table_id)
        metadata = newborn.metadata
        placed = desk.locations.placed(
            str(metadata["location"]), table_id=table_id, also=newborn.also
        )
        uuid = pointer.table_uuid
        return AttachTable(
            table_id=table_id,
            schema=self.name.schema,
            name=self.name.name,
            kind=self.kind,
            location=placed.stored,
            paths=paths_beside(desk.locations, metadata),
            table_uuid=None if uuid == table_id else uuid,
            comment=properties_of(metadata).get("comment"),
            columns=columns_of(current_schema(metadata)),
            born=0,
            projected=0,
        )


def check_new(
    desk: Desk, metadata: Metadata, table_id: str, also: frozenset[str] = frozenset()
) -> None:
    """`Invalid` if something new lies, or keeps its files, where it may not, or has odd columns."""
    location = str(metadata["location"])
    desk.locations.placed(location, table_id=table_id, also=also)
    desk.locations.check_properties(properties_of(metadata))
    desk.locations.check_metadata(metadata, location)
    paths_beside(desk.locations, metadata)
    # What the catalog could not show is refused before it is there.
    columns_of(current_schema(metadata))


def remembered(make: Callable[[str], Newborn]) -> Callable[[str], Newborn]:
    """The same newborn whenever it is asked for under the same id."""
    made: dict[str, Newborn] = {}

    def once(table_id: str) -> Newborn:
        if table_id not in made:
            made[table_id] = make(table_id)
        return made[table_id]

    return once


def birth_refusal(birth: Birth, problem: ArcoError, taken: TableRow | None) -> Refused:
    """Why something could not be made, in Iceberg's words."""
    if taken is not None and isinstance(problem, AlreadyExists):
        return name_taken(birth, taken.kind)
    if isinstance(problem, NotFound):
        return no_such_namespace(birth.name.namespace)
    if isinstance(problem, Conflict):  # the place belongs to another table
        return exists(str(problem))
    return in_own_words(problem)


def place_taken() -> Refused:
    """Another table lies where this one is to be."""
    return exists("another table lies at this location or path, in it or around it")


def name_taken(birth: Birth, by: ObjectKind) -> Refused:
    """The name is taken by a table or a view."""
    if birth.is_required and by is birth.kind:
        return commit_failed("Requirement failed: table already exists")
    label = "View" if by is ObjectKind.VIEW else "Table"
    same = "" if by is birth.kind else " with same name"
    return exists(f"{label}{same} already exists: {dotted(birth.name.namespace, birth.name.name)}")
