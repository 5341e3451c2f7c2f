"""Search: what can be found, document by document."""

from typing import Annotated

from msgspec import Meta

from arco.events.field import Count, Id, Message, Payload, Text
from arco.events.told import EventKind, Projection, Rows, Told, kind
from arco.fold.tier2 import SEARCH_DOCUMENTS, SEARCH_DOMAIN


class SearchDocumentChanged(Payload, frozen=True, kw_only=True):
    """A document that can be found changed, or is gone; a higher `version` decides before clocks."""

    document_id: Id
    version: Count = 0
    kind: Id | None = None
    title: Text | None = None
    text: Message | None = None
    tags: Annotated[tuple[Id, ...], Meta(max_length=1_000)] = ()
    removed: bool = False


def _document(told: Told[SearchDocumentChanged]) -> Rows:
    return Rows(
        told,
        {
            **told.fields("document_id", "kind", "title", "text", "tags", "removed"),
            "indexed_at": told.occurred,
            "_told": told.order(causal=told.field("version")),
        },
    )


KINDS: tuple[EventKind, ...] = (
    kind(
        "search_document_changed",
        SEARCH_DOMAIN,
        SearchDocumentChanged,
        Projection(SEARCH_DOCUMENTS, _document),
        example={
            "document_id": "tbl-orders",
            "version": 3,
            "kind": "TABLE",
            "title": "sales.orders",
            "text": "What was ordered, a row for each order.",
            "tags": ["finance"],
        },
        ours=True,
    ),
)
