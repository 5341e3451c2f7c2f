"""Refusals in Iceberg's own words: the status, the type that clients switch on, and the sentence."""

from collections.abc import Sequence

FENCED = "AttemptFencedException"


class Refused(Exception):
    """A request that is answered with one of Iceberg's errors; clients go by status and type."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message


class Unreadable(Refused):
    """A metadata file that cannot be read now. It says nothing about a request, and is never kept."""


def dotted(namespace: Sequence[str], name: str | None = None) -> str:
    """A name as Iceberg's messages have it."""
    return ".".join((*namespace, name) if name is not None else namespace)


def no_such_namespace(namespace: Sequence[str]) -> Refused:
    """There is no such namespace."""
    return Refused(
        404, "NoSuchNamespaceException", f"Namespace does not exist: {dotted(namespace)}"
    )


def no_such_table(namespace: Sequence[str], name: str) -> Refused:
    """There is no such table."""
    return Refused(404, "NoSuchTableException", f"Table does not exist: {dotted(namespace, name)}")


def no_such_view(namespace: Sequence[str], name: str) -> Refused:
    """There is no such view."""
    return Refused(404, "NoSuchViewException", f"View does not exist: {dotted(namespace, name)}")


def no_such_warehouse(name: str) -> Refused:
    """There is no such catalog."""
    return Refused(404, "NoSuchWarehouseException", f"Warehouse does not exist: {name}")


def exists(message: str) -> Refused:
    """The name is taken."""
    return Refused(409, "AlreadyExistsException", message)


def commit_failed(message: str) -> Refused:
    """A requirement does not hold, or what was sent is stale: read again and retry."""
    return Refused(409, "CommitFailedException", message)


def fenced(message: str) -> Refused:
    """Another attempt at the task has its partitions; with this status no client tries again."""
    return Refused(403, FENCED, message)
