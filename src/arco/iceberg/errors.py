"""Errors as Iceberg's REST clients expect them: status, type and message.

Clients switch on the type. Errors of core are translated to these and back here.
"""

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


class IcebergError(Exception):
    """A request that is answered with one of Iceberg's errors; clients go by status and type."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message


class UnreadableMetadata(IcebergError):
    """A metadata file that cannot be read now. It says nothing about a request, and is never kept."""


def dotted(namespace: Sequence[str], name: str | None = None) -> str:
    """A name as Iceberg's messages have it."""
    return ".".join((*namespace, name) if name is not None else namespace)


def no_such_namespace(namespace: Sequence[str]) -> IcebergError:
    """There is no such namespace."""
    return IcebergError(
        404, "NoSuchNamespaceException", f"Namespace does not exist: {dotted(namespace)}"
    )


def no_such_table(namespace: Sequence[str], name: str) -> IcebergError:
    """There is no such table."""
    return IcebergError(
        404, "NoSuchTableException", f"Table does not exist: {dotted(namespace, name)}"
    )


def no_such_view(namespace: Sequence[str], name: str) -> IcebergError:
    """There is no such view."""
    return IcebergError(
        404, "NoSuchViewException", f"View does not exist: {dotted(namespace, name)}"
    )


def no_such_warehouse(name: str) -> IcebergError:
    """There is no such catalog."""
    return IcebergError(404, "NoSuchWarehouseException", f"Warehouse does not exist: {name}")


def already_exists(message: str) -> IcebergError:
    """The name is taken."""
    return IcebergError(409, "AlreadyExistsException", message)


def commit_failed(message: str) -> IcebergError:
    """A requirement does not hold, or what was sent is stale: read again and retry."""
    return IcebergError(409, "CommitFailedException", message)


def attempt_fenced(message: str) -> IcebergError:
    """Another attempt at the task has its partitions; with this status no client tries again."""
    return IcebergError(403, FENCED, message)


def unreadable_to_core_error(error: UnreadableMetadata) -> ArcoError:
    """That metadata cannot be read, as an error of ours: no verdict on what was asked of them."""
    return Corrupt(error.message) if error.status == 404 else Unavailable(error.message)


def to_core_error(error: IcebergError) -> ArcoError:
    """A refusal in Iceberg's words as an error of ours."""
    if error.status == 412:
        return PreconditionFailed(error.message)
    if error.status == 404:
        return NotFound(error.message)
    if error.kind == "AlreadyExistsException":
        return AlreadyExists(error.message)
    if error.kind == "NamespaceNotEmptyException":
        return NotEmpty(error.message)
    return Conflict(error.message) if error.status == 409 else Invalid(error.message)


def to_iceberg_error(problem: ArcoError) -> IcebergError:
    """A verdict of the catalog or of the metadata engine, as Iceberg words it."""
    message = str(problem)
    if isinstance(problem, AttemptFenced):
        return attempt_fenced(message)
    if isinstance(problem, NotEmpty):
        return IcebergError(409, "NamespaceNotEmptyException", message)
    if isinstance(problem, Conflict):
        return IcebergError(409, "CommitFailedException", message)
    if isinstance(problem, AlreadyExists):
        return IcebergError(409, "AlreadyExistsException", message)
    if isinstance(problem, NotFound):
        return IcebergError(404, "NotFoundException", message)
    if isinstance(problem, Invalid):
        return IcebergError(400, "BadRequestException", message)
    raise problem
