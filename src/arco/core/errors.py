"""The tree of errors. The type says what to do next; the message is for people and is not API.

A subclass means what its parent means, unless the tree says otherwise at the subclass.

    ArcoError
     |- Conflict        another writer was first: read again, then retry
     |   |- PreconditionFailed  the object has changed since the caller read it: read it again
     |   |- LocationTaken  another table has the location or path of a commit: choose another; a retry fails
     |   `- NotEmpty    the container holds something: empty it first, or force it; a retry fails
     |- Unknown         the write may have happened: look before a retry, delete nothing
     |- Fenced          stop: another holder has taken over
     |   |- TakenOver   another process has taken over or answered an idempotency claim: stop
     |   `- AttemptFenced  another attempt at the task owns its partitions: do not publish
     |- Invalid         the request itself is wrong: change it
     |   |- KeyReused   the same idempotency key was sent with another request: use a new key
     |   |- KeyExpired  an idempotency key expired, and its request may have taken effect: look first
     |   |- ContradictoryUpdate  one property is both set and removed: choose one
     |   |- InvalidView  a view cannot be made from this definition: change the definition
     |   `- UnreservedPath  a commit names files outside the table's locations: write them inside
     |- NotFound        the object does not exist: check its name, or create it first
     |   |- NoSuchCatalog  the catalog does not exist
     |   |- NoSuchSchema  the schema does not exist
     |   |- NoSuchTable  the table does not exist
     |   `- NoSuchView  the view does not exist
     |- AlreadyExists   the name is taken: use the existing object, or choose another name
     |- Denied          this identity may not do that: ask for the privilege
     |   `- Unauthenticated  the caller has no valid token: authenticate first
     |- Unavailable     nothing was written, or nothing could be read: retry later
     |   |- StoreFull   nothing can be written: an operator frees some space; a retry fails until then
     |   |   `- StoreReadOnly  the store's disk is read-only: an operator mounts it writable
     |   |- TooManyQueries  all SQL processes are busy: retry later
     |   |- BacklogTooLarge  more events wait to be compacted than one read can take: compact first
     |   |- DeniedMetadata  the store denies reading a metadata file: an operator grants access
     |   `- InProgress  another attempt of the same request is under way: retry with the same key
     |- Unsupported     this installation lacks a capability: an operator adds it; a retry fails
     `- Corrupt         stored bytes contradict each other: stop, an operator has to look
         `- MissingMetadata  a table's metadata file does not exist: restore the file, or drop the table

`code` is stable and part of the API; only the API packages turn it into JSON. A class without a code of
its own has that of its parent.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar


class ArcoError(Exception):
    """The root; never raised itself."""

    code: ClassVar[str] = "error"
    # What the caller should do about it; see `next_step_for`.
    next_step: ClassVar[str] = ""
    # Whether the message may be sent although it names locations in the store: the caller sent them. A
    # class sets it if that holds for all its errors, and an instance if it holds for this error.
    has_public_message: bool = False


class Conflict(ArcoError):
    """Another writer created the object that this one was about to create."""

    code = "conflict"
    next_step = "Read again, then retry."


class PreconditionFailed(Conflict):
    """The object is not the version that the caller wants to change."""

    code = "precondition_failed"
    next_step = "Read it again, then retry with its new version."


class LocationTaken(Conflict):
    """A commit needs a location or path that another table has."""

    has_public_message = True
    next_step = "Choose another location, or drop the table that has it."


class NotEmpty(Conflict):
    """A container that is not empty cannot be dropped without force."""

    code = "not_empty"
    next_step = "Drop what it holds first, or force the drop."


class Unknown(ArcoError):
    """The outcome of a write is not known; it may still take effect."""

    code = "unknown_outcome"
    next_step = "It may have happened: look before you try again."


class Fenced(ArcoError):
    """The right to write was taken over; what this process holds in memory is stale."""

    code = "fenced"
    next_step = "Another process has taken over; start again."


class TakenOver(Fenced):
    """Another process has taken over the request of an idempotency key, or has answered it."""

    code = "taken_over"


class AttemptFenced(Fenced):
    """An attempt at a task may not publish any more: another attempt owns its partitions."""

    code = "attempt_fenced"
    next_step = "Stop: what this attempt has staged is never seen, and will be collected."


class Invalid(ArcoError):
    """The input is wrong and would be wrong at any time."""

    code = "invalid"
    next_step = "Change the request."


class KeyReused(Invalid):
    """An idempotency key was sent again with a different request."""

    code = "idempotency_key_reused"
    next_step = "Send this request with another key."


class KeyExpired(Invalid):
    """An idempotency key has expired without an outcome; its request may have taken effect."""

    code = "idempotency_key_expired"
    next_step = "Look whether it happened; if not, send the request with a new key."


class ContradictoryUpdate(Invalid):
    """A request both sets and removes the same property."""

    has_public_message = True


class InvalidView(Invalid):
    """A view cannot be created from the definition in the request."""

    has_public_message = True


class UnreservedPath(Invalid):
    """A commit names files outside the locations that its table has reserved."""

    has_public_message = True


class NotFound(ArcoError):
    """The object that was asked for does not exist."""

    code = "not_found"
    next_step = "Check the name."


class NoSuchCatalog(NotFound):
    """A request names a catalog that does not exist."""

    has_public_message = True


class NoSuchSchema(NotFound):
    """A request names a schema that does not exist."""

    has_public_message = True


class NoSuchTable(NotFound):
    """A request names a table that does not exist."""

    has_public_message = True


class NoSuchView(NotFound):
    """A request names a view that does not exist."""

    has_public_message = True


class AlreadyExists(ArcoError):
    """The name or key that was to be created is taken."""

    code = "already_exists"
    next_step = "Choose another name, or use the existing object."


class Denied(ArcoError):
    """The identity in use is not allowed to do this."""

    code = "denied"
    next_step = "Ask for access, or use another identity."


class Unauthenticated(Denied):
    """The request has no token, or one that is not valid."""

    code = "unauthenticated"
    next_step = "Send a valid token; `arco token mint` makes one."


class Unavailable(ArcoError):
    """A dependency did not answer properly; the same call may succeed later."""

    code = "unavailable"
    next_step = "Try again in a moment."

    def __init__(self, message: str, *, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class StoreFull(Unavailable):
    """No space is left in the store: nothing was written, and a retry does not help."""

    code = "store_full"
    next_step = "Free space on the disk of the store, then try again."


class StoreReadOnly(StoreFull):
    """The store's disk is read-only: nothing was written, and a retry does not help."""

    code = "store_read_only"
    next_step = "Mount the disk of the store writable, then try again."


class TooManyQueries(Unavailable):
    """All SQL processes that this caller may use are busy, and too many queries wait already."""

    code = "too_many_queries"


class BacklogTooLarge(Unavailable):
    """A fresh read would have to expand more events than its limits allow."""

    code = "backlog_too_large"
    next_step = (
        "Read what is published (freshness=published), or retry once the compactor has caught up."
    )


class DeniedMetadata(Unavailable):
    """The store denies this process to read a table's metadata file."""

    has_public_message = True
    next_step = "Grant the server's identity read access to the file, then try again."


class InProgress(Unavailable):
    """Another attempt of the same request is under way and may still succeed."""

    code = "in_progress"
    next_step = "Retry with the same key."


class Unsupported(ArcoError):
    """This installation lacks a capability that Arco or the request needs (law 13)."""

    code = "unsupported"
    next_step = ""  # the message says what to install or to change


class Corrupt(ArcoError):
    """Stored bytes are missing or contradict what refers to them (law 14)."""

    code = "corrupt"
    next_step = "Run `arco verify` on the store; it names what is wrong."


class MissingMetadata(Corrupt):
    """A pointer names a metadata file that does not exist."""

    has_public_message = True


def errors_by_code() -> dict[str, type[ArcoError]]:
    """The class of each code; of classes that share one, the parent.

    Errors of other packages are left out: their constructors may take more than a message.
    """
    return {kind.code: kind for kind in _subclasses(ArcoError) if "code" in vars(kind)}


def next_step_for(
    kind: type[ArcoError], overrides: Mapping[type[ArcoError], str] | None = None
) -> str:
    """What to do about an error of class `kind`.

    `overrides` holds the sentences that differ for one kind of reader. The closest class counts, so that
    an override for `Denied` does not replace the sentence of `Unauthenticated`.
    """
    for each in kind.__mro__:
        if overrides is not None and each in overrides:
            return overrides[each]
        if "next_step" in vars(each):
            return str(vars(each)["next_step"])
    raise AssertionError(f"{kind.__name__} is no ArcoError")


def _subclasses(kind: type[ArcoError]) -> Iterator[type[ArcoError]]:
    for each in kind.__subclasses__():
        if each.__module__ == ArcoError.__module__:
            yield each
            yield from _subclasses(each)
