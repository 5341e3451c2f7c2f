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
    """A request is answered with one of Iceberg's errors; clients switch on status and type."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message


class UnreadableMetadata(IcebergError):
    """A metadata file cannot be read now. It is not an outcome of the request and is never stored."""


def dotted(namespace: Sequence[str], name: str | None = None) -> str:
    """A name as Iceberg's messages print it."""
    return ".".join((*namespace, name) if name is not None else namespace)


def no_such_namespace(namespace: Sequence[str]) -> IcebergError:
    """The namespace does not exist."""
    return IcebergError(
        404, "NoSuchNamespaceException", f"Namespace does not exist: {dotted(namespace)}"
    )


def no_such_table(namespace: Sequence[str], name: str) -> IcebergError:
    """The table does not exist."""
    return IcebergError(
        404, "NoSuchTableException", f"Table does not exist: {dotted(namespace, name)}"
    )


def no_such_view(namespace: Sequence[str], name: str) -> IcebergError:
    """The view does not exist."""
    return IcebergError(
        404, "NoSuchViewException", f"View does not exist: {dotted(namespace, name)}"
    )


def no_such_warehouse(name: str) -> IcebergError:
    """The catalog does not exist."""
    return IcebergError(404, "NoSuchWarehouseException", f"Warehouse does not exist: {name}")


def already_exists(message: str) -> IcebergError:
    """The name is taken."""
    return IcebergError(409, "AlreadyExistsException", message)


def commit_failed(message: str) -> IcebergError:
    """A requirement does not hold, or the request is stale: read the table again and retry."""
    return IcebergError(409, "CommitFailedException", message)


def attempt_fenced(message: str) -> IcebergError:
    """Another attempt at the task may publish its partitions; clients do not retry this status."""
    return IcebergError(403, FENCED, message)


def unreadable_to_core_error(error: UnreadableMetadata) -> ArcoError:
    """Unreadable metadata as an error of core; it is not an outcome of the request."""
    return Corrupt(error.message) if error.status == 404 else Unavailable(error.message)


def to_core_error(error: IcebergError) -> ArcoError:
    """An Iceberg error as an error of core."""
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
    """An error of the catalog or of the metadata engine as an Iceberg error."""
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
