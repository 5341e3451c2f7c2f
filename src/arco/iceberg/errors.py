"""Refusals in Iceberg's own words: the status, the type that clients switch on, and the sentence."""

from collections.abc import Sequence

from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    AttemptFenced,
    Conflict,
    Corrupt,
    Invalid,
    NotEmpty,
    NotFound,
    PreconditionFailed,
    Unavailable,
)

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


def unreadable(told: Unreadable) -> ArcoError:
    """That metadata cannot be read, as an error of ours: no verdict on what was asked of them."""
    return Corrupt(told.message) if told.status == 404 else Unavailable(told.message)


def core_error(told: Refused) -> ArcoError:
    """A refusal in Iceberg's words as an error of ours."""
    if told.status == 412:
        return PreconditionFailed(told.message)
    if told.status == 404:
        return NotFound(told.message)
    if told.kind == "AlreadyExistsException":
        return AlreadyExists(told.message)
    if told.kind == "NamespaceNotEmptyException":
        return NotEmpty(told.message)
    return Conflict(told.message) if told.status == 409 else Invalid(told.message)


def in_own_words(problem: ArcoError) -> Refused:
    """A verdict of the catalog or of the metadata engine, as Iceberg words it."""
    message = str(problem)
    if isinstance(problem, AttemptFenced):
        return fenced(message)
    if isinstance(problem, NotEmpty):
        return Refused(409, "NamespaceNotEmptyException", message)
    if isinstance(problem, Conflict):
        return Refused(409, "CommitFailedException", message)
    if isinstance(problem, AlreadyExists):
        return Refused(409, "AlreadyExistsException", message)
    if isinstance(problem, NotFound):
        return Refused(404, "NotFoundException", message)
    if isinstance(problem, Invalid):
        return Refused(400, "BadRequestException", message)
    raise problem
