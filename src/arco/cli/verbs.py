"""What the verbs do, the same for all kinds of objects: ask a running Arco, print its answer."""

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import TypeVar

import msgspec

from arco.catalog.name import print_dotted
from arco.cli.listing import Pages, print_items, print_rows
from arco.cli.output import print_document
from arco.cli.remote import Remote, path
from arco.cli.target import Kind, Target
from arco.cli.things import Manifest, Thing
from arco.cli.view import print_thing, row_of
from arco.core import json
from arco.core.errors import Invalid

T = TypeVar("T")

_HEADINGS = {
    Kind.CATALOG: ("CATALOG", "OWNER", "UPDATED", "COMMENT"),
    Kind.SCHEMA: ("SCHEMA", "OWNER", "UPDATED", "COMMENT"),
    Kind.TABLE: ("TABLE", "FORMAT", "TYPE", "OWNER", "UPDATED", "COMMENT"),
    Kind.VIEW: ("VIEW", "FORMAT", "TYPE", "OWNER", "UPDATED", "COMMENT"),
}
_NAMED_ALIKE = frozenset({Kind.TABLE, Kind.VIEW})
_WHEN_DROPPED = ("DROPPED", "ID")


def create(remote: Remote, target: Target, body: dict[str, object], *, as_json: bool) -> None:
    """Make an object."""
    if target.kind is Kind.SCHEMA:
        body = {"parent": target.schema[:-1], **body}
    place = path(*target.url[:-1])
    made = remote.change("POST", place, {"name": target.name, **body})
    if as_json:
        print_raw(made)
    else:
        thing = json.decode(made, Thing)
        print(f"Created {target.kind} {thing.full_name}, id {thing.id}.")


def show(remote: Remote, target: Target, as_of: str | None, *, as_json: bool) -> None:
    """Print one object."""
    found = remote.get(path(*target.url), {"as_of": as_of})
    if as_json:
        print_raw(found)
    else:
        print_thing(json.decode(found, Thing))


def print_children(
    remote: Remote,
    kind: Kind,
    parent: Target | None,
    *,
    dropped: bool,
    as_of: str | None,
    as_json: bool,
) -> None:
    """Print what lies right in `parent`; of a catalog, all its tables or views."""
    params = {"as_of": as_of, "dropped": "true" if dropped else None}
    if kind in _NAMED_ALIKE and parent is not None and not parent.schema:
        pages = _all_tables(remote, kind, parent, params)
    else:
        pages = children(remote, kind, parent, params)
    if as_json:
        print_items(pages)
        return
    headings = _HEADINGS[kind] + (_WHEN_DROPPED if dropped else ())
    print_rows(headings, ([row_of(each) for each in page] for page in decoded(pages, Thing)))


def rename(remote: Remote, target: Target, new: Target, *, as_json: bool) -> None:
    """Give an object another name; a table may so move to another schema or catalog."""
    if new == target:
        raise Invalid(f"{target} is called so already")
    wish: dict[str, object] = {"name": new.name} if new.name != target.name else {}
    if target.kind in _NAMED_ALIKE:
        if new.schema != target.schema or new.catalog != target.catalog:
            wish["schema"] = new.schema
        if new.catalog != target.catalog:
            wish["catalog"] = new.catalog
    elif target.kind is Kind.SCHEMA and new.parent != target.parent:
        raise Invalid(
            f"a schema stays in {target.parent}, so its new name is "
            f"{print_dotted((*target.parent.parts, new.name))}, or another there"
        )
    answer = remote.change("PATCH", path(*target.url), wish)
    if as_json:
        print_raw(answer)
    else:
        print(f"Renamed {target.kind} {target} to {json.decode(answer, Thing).full_name}.")


def drop(remote: Remote, target: Target, *, force: bool, as_json: bool) -> None:
    """Drop an object."""
    remote.change("DELETE", path(*target.url), params={"force": "true" if force else None})
    if as_json:
        print_document({"dropped": str(target), "kind": target.kind.upper()})
    else:
        back = f"arco {target.kind} undrop {quote(str(target))}"
        print(f"Dropped {target.kind} {target}. `{back}` brings it back.")


def children(
    remote: Remote, kind: Kind, parent: Target | None, params: dict[str, str | None]
) -> Pages:
    """What of a kind lies right in `parent`; without one, the catalogs."""
    if parent is None:
        return remote.pages("/catalogs", params)
    if kind in _NAMED_ALIKE:
        return remote.pages(path(*parent.url, f"{kind}s"), params)
    if not parent.schema:
        return remote.pages(path(*parent.url, "schemas"), params)
    catalog, levels = parent.url[:2], parent.url[3]
    return remote.pages(path(*catalog, "schemas"), {**params, "parent": levels})


def _all_tables(
    remote: Remote, kind: Kind, catalog: Target, params: dict[str, str | None]
) -> Pages:
    """The tables or views of every schema, all as of one version, whatever is published meanwhile."""
    head = remote.get("/manifests/catalog", {"as_of": params["as_of"]})
    params = {**params, "as_of": str(json.decode(head, Manifest).number)}
    return _walk(remote, kind, catalog, params)


def _walk(remote: Remote, kind: Kind, parent: Target, params: dict[str, str | None]) -> Pages:
    alive = {**params, "dropped": None}
    for page in decoded(children(remote, Kind.SCHEMA, parent, alive), Thing):
        for schema in page:
            below = Target(parent.catalog, schema.schema)
            yield from children(remote, kind, below, params)
            yield from _walk(remote, kind, below, params)


def decoded(pages: Pages, kind: type[T]) -> Iterator[Sequence[T]]:
    """The items of a list, read."""
    for page in pages:
        yield [json.decode(bytes(each), kind) for each in page]


def print_raw(document: bytes) -> None:
    """Print a document as the server gave it, indented."""
    print(msgspec.json.format(document, indent=2).decode())
