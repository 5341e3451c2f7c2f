"""The refusals of Iceberg requests, with the messages that Iceberg's clients know.

They are errors of `core`; the API gives each its status and type. Their messages are answers to the
caller and may name the caller's locations.
"""

from collections.abc import Sequence

from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    DeniedMetadata,
    MissingMetadata,
    NoSuchCatalog,
    NoSuchSchema,
    NoSuchTable,
    NoSuchView,
)

# A metadata file cannot be read. That is not an outcome of the request and is never stored.
UNREADABLE = (MissingMetadata, DeniedMetadata)


def dotted(namespace: Sequence[str], name: str | None = None) -> str:
    """A name as Iceberg's messages print it."""
    return ".".join((*namespace, name) if name is not None else namespace)


def no_such_namespace(namespace: Sequence[str]) -> NoSuchSchema:
    """The namespace does not exist."""
    return NoSuchSchema(f"Namespace does not exist: {dotted(namespace)}")


def no_such_table(namespace: Sequence[str], name: str) -> NoSuchTable:
    """The table does not exist."""
    return NoSuchTable(f"Table does not exist: {dotted(namespace, name)}")


def no_such_view(namespace: Sequence[str], name: str) -> NoSuchView:
    """The view does not exist."""
    return NoSuchView(f"View does not exist: {dotted(namespace, name)}")


def no_such_warehouse(name: str) -> NoSuchCatalog:
    """The catalog does not exist."""
    return NoSuchCatalog(f"Warehouse does not exist: {name}")


def missing_file(location: str) -> MissingMetadata:
    """A pointer names a metadata file that does not exist."""
    return MissingMetadata(f"Failed to open input stream for file: {location}")


def already_exists(message: str) -> AlreadyExists:
    """The name or location is taken."""
    error = AlreadyExists(message)
    error.has_public_message = True
    return error


def message_with_advice(problem: ArcoError) -> str:
    """The message of an error and its notes, since Iceberg's clients show nothing but the message."""
    return ". ".join([str(problem), *getattr(problem, "__notes__", ())])
