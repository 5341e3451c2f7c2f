"""The tree of errors. The type says what to do next; the message is for people and is not API.

    ArcoError
     |- Conflict        another writer was first: read again, then retry
     |   |- PreconditionFailed  the object has changed since the caller read it
     |   `- NotEmpty    the container holds something: empty it first, or force it
     |- Unknown         the write may have happened: look before a retry, delete nothing
     |- Fenced          stop: another holder has taken over
     |   |- TakenOver   another process has taken over or answered an idempotency claim
     |   `- AttemptFenced  another attempt at the task owns its partitions: do not publish
     |- Invalid         the request itself is wrong: change it
     |   |- KeyReused   the same idempotency key was sent with another request
     |   `- KeyExpired  an idempotency key expired, and its request may have taken effect
     |- NotFound        the object does not exist
     |- AlreadyExists   the name is taken
     |- Denied          this identity may not do that
     |   `- Unauthenticated  the caller has no valid token: authenticate first
     |- Unavailable     nothing was written, or nothing could be read: retry later
     |   |- StoreFull   the store is full: nothing was written, free some space first
     |   |   `- StoreReadOnly  the store's disk is read-only: nothing was written
     |   |- TooManyQueries  all SQL processes are busy: retry later
     |   |- BacklogTooLarge  more events wait to be compacted than one read can take
     |   `- InProgress  another attempt of the same request is under way: retry with the same key
     |- Unsupported     the environment lacks a capability: refused at start
     `- Corrupt         stored bytes contradict each other: stop, an operator has to look

`code` is stable and part of the API; only the API packages turn it into JSON.
"""

from typing import ClassVar


class ArcoError(Exception):
    """The root; never raised itself."""

    code: ClassVar[str] = "error"


class Conflict(ArcoError):
    """Another writer created the object that this one was about to create."""

    code = "conflict"


class PreconditionFailed(Conflict):
    """The object is not the version that the caller wants to change."""

    code = "precondition_failed"


class NotEmpty(Conflict):
    """A container that is not empty cannot be dropped without force."""

    code = "not_empty"


class Unknown(ArcoError):
    """The outcome of a write is not known; it may still take effect."""

    code = "unknown_outcome"


class Fenced(ArcoError):
    """The right to write was taken over; what this process holds in memory is stale."""

    code = "fenced"


class TakenOver(Fenced):
    """Another process has taken over the request of an idempotency key, or has answered it."""

    code = "taken_over"


class AttemptFenced(Fenced):
    """An attempt at a task may not publish any more: another attempt owns its partitions."""

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
    """The request has no token, or one that is not valid."""

    code = "unauthenticated"


class Unavailable(ArcoError):
    """A dependency did not answer properly; the same call may succeed later."""

    code = "unavailable"

    def __init__(self, message: str, *, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class StoreFull(Unavailable):
    """No space is left in the store: nothing was written, and a retry does not help."""

    code = "store_full"


class StoreReadOnly(StoreFull):
    """The store's disk is read-only: nothing was written, and a retry does not help."""

    code = "store_read_only"


class TooManyQueries(Unavailable):
    """All SQL processes that this caller may use are busy, and too many queries wait already."""

    code = "too_many_queries"


class BacklogTooLarge(Unavailable):
    """A fresh read would have to expand more events than its limits allow."""

    code = "backlog_too_large"


class InProgress(Unavailable):
    """Another attempt of the same request is under way and may still succeed."""

    code = "in_progress"


class Unsupported(ArcoError):
    """The environment cannot keep a promise that Arco is built on (law 13)."""

    code = "unsupported"


class Corrupt(ArcoError):
    """Stored bytes are missing or contradict what refers to them (law 14)."""

    code = "corrupt"
