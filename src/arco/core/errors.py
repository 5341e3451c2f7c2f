"""The tree of errors. The type says what to do next; the message is for people and is not API.

    ArcoError
     |- Conflict        somebody else was first: read again, then retry
     |   |- PreconditionFailed  it has changed since the caller has read it
     |   `- NotEmpty    it holds something: empty it first, or force it
     |- Unknown         it may have happened: look before you retry, delete nothing
     |- Fenced          stop: another holder has taken over
     |   |- TakenOver   the claim of an idempotency key has something above it
     |   `- AttemptFenced  another attempt at a task has its partitions: do not publish
     |- Invalid         the request itself is wrong: change it
     |   |- KeyReused   the same idempotency key came with another request
     |   `- KeyExpired  an idempotency key is too old to tell what became of its request
     |- NotFound        there is no such thing
     |- AlreadyExists   the name is taken
     |- Denied          this identity may not do that
     |   `- Unauthenticated  nobody knows who is asking: prove it first
     |- Unavailable     nothing happened, or nothing was found out: retry later
     |   |- StoreFull   the store takes no more: nothing happened, make room first
     |   |   `- StoreReadOnly  the store's disk is read-only: nothing happened, make it writable first
     |   |- TooManyQueries  others are being answered: retry later
     |   |- BacklogTooLarge  more events wait to be compacted than one read can take
     |   `- InProgress  another attempt of the same request is under way: retry with the same key
     |- Unsupported     the environment lacks a capability: refused at start
     `- Corrupt         stored bytes contradict each other: stop and call for help

`code` is stable and part of the API; only the wire rooms turn it into a protocol's JSON.
"""

from typing import ClassVar


class ArcoError(Exception):
    """The root; never raised itself."""

    code: ClassVar[str] = "error"


class Conflict(ArcoError):
    """Somebody else won the place that was meant for us, and we have seen who."""

    code = "conflict"


class PreconditionFailed(Conflict):
    """The object is not, or no longer, the version that the caller wants to change."""

    code = "precondition_failed"


class NotEmpty(Conflict):
    """A container that still holds something cannot be dropped like this."""

    code = "not_empty"


class Unknown(ArcoError):
    """The outcome of a write could not be found out; it may still take effect."""

    code = "unknown_outcome"


class Fenced(ArcoError):
    """The right to write was taken over; whatever we hold in memory is stale."""

    code = "fenced"


class TakenOver(Fenced):
    """Another holder has taken over our request, or has answered it."""

    code = "taken_over"


class AttemptFenced(Fenced):
    """An attempt at a task may not publish any more: another has, or was given its partitions."""

    code = "attempt_fenced"


class Invalid(ArcoError):
    """The input is wrong and would be wrong at any time."""

    code = "invalid"


class KeyReused(Invalid):
    """An idempotency key was sent again with a different request."""

    code = "idempotency_key_reused"


class KeyExpired(Invalid):
    """An idempotency key has expired without an outcome; its request may have taken effect."""

    code = "idempotency_key_expired"


class NotFound(ArcoError):
    """The object that was asked for does not exist."""

    code = "not_found"


class AlreadyExists(ArcoError):
    """The name or key that was to be created is taken."""

    code = "already_exists"


class Denied(ArcoError):
    """The identity in use is not allowed to do this."""

    code = "denied"


class Unauthenticated(Denied):
    """Who is asking could not be proven: no token, or one that is not valid."""

    code = "unauthenticated"


class Unavailable(ArcoError):
    """A dependency did not answer properly; the same call may succeed later."""

    code = "unavailable"

    def __init__(self, message: str, *, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class StoreFull(Unavailable):
    """No space is left in the store: nothing was written, and nothing will be before there is room."""

    code = "store_full"


class StoreReadOnly(StoreFull):
    """The store's disk is read-only: as on a full one, nothing is written until somebody acts."""

    code = "store_read_only"


class TooManyQueries(Unavailable):
    """All SQL processes that this caller may use are busy, and too many queries wait already."""

    code = "too_many_queries"


class BacklogTooLarge(Unavailable):
    """A fresh read would have to expand more events than its limits allow."""

    code = "backlog_too_large"


class InProgress(Unavailable):
    """Another attempt of the same request is under way, and may be carried out."""

    code = "in_progress"


class Unsupported(ArcoError):
    """The environment cannot keep a promise that Arco is built on (law 13)."""

    code = "unsupported"


class Corrupt(ArcoError):
    """Stored bytes are missing or contradict what refers to them (law 14)."""

    code = "corrupt"
