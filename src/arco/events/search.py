"""Events of the search index: one document for each object that can be found."""

from typing import Annotated

from msgspec import Meta

from arco.events.payload import Count, Id, Message, Payload, Text
from arco.events.projection import EventBatch, EventKind, ProjectedRows, Projection, event_kind
from arco.fold.tier2 import ORDER, SEARCH_DOCUMENTS, SEARCH_DOMAIN


class SearchDocumentChanged(Payload, frozen=True, kw_only=True):
    """A search document changed or was removed; a higher `version` outranks every clock."""

    document_id: Id
    version: Count = 0
    kind: Id | None = None
    title: Text | None = None
    text: Message | None = None
    tags: Annotated[tuple[Id, ...], Meta(max_length=1_000)] = ()
    removed: bool = False


def _document(batch: EventBatch[SearchDocumentChanged]) -> ProjectedRows:
    return ProjectedRows(
        batch,
        {
            **batch.fields("document_id", "kind", "title", "text", "tags", "removed"),
            "indexed_at": batch.occurred_us,
            ORDER: batch.order(causal=batch.field("version")),
        },
    )


KINDS: tuple[EventKind, ...] = (
    event_kind(
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
        is_internal=True,
    ),
)
