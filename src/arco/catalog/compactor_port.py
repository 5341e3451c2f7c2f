"""The port to the compactor, which alone publishes (law 4); called in process or over HTTP."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec

from arco.fold.tier1 import DOMAIN
from arco.ledger.envelope import Envelope

# Awaited before a manifest is created; what it raises prevents the manifest and goes to the caller. It may
# be awaited several times.
Guard = Callable[[], Coroutine[Any, Any, None]]


async def no_guard() -> None:
    """Nothing has to be awaited before the manifest."""


class SyncCompact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Publish these events as one commit, if no row has changed since `base_manifest`.

    The call carries the events, so that the compactor need not read them; `event_paths` holds the path of
    each as `path#line`. The caller chooses `commit_ulid`, to find out whether a call landed whose answer
    was lost (P23). The workspace and the hash of the base guard against a number of another chain.
    """

    domain: str
    event_paths: tuple[str, ...]
    events: tuple[Envelope, ...]
    commit_ulid: str
    fencing_token: int
    base_manifest: int
    base_sha256: str | None = None
    tenant: str | None = None
    workspace: str | None = None


class PublishedCommit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A published commit. `manifest` is its stored text, which spares the caller a read."""

    manifest_version: int
    commit_ulid: str
    manifest: str | None = None


class CompactorPort(Protocol):
    """The operations of the compactor that the API may call."""

    async def sync_compact(self, call: SyncCompact, guard: Guard = no_guard) -> PublishedCommit:
        """Publish a commit once `guard` has returned, which may run beside the work before the manifest.

        `Conflict`: rows have changed since the base, decide again. `Fenced`: the token is stale.
        `Invalid`: an event cannot be folded, nothing was done. `Unavailable`: nothing was done.
        `Unknown`, or anything else: it may have been published, or may yet be.
        """

    async def mark_orphans(self, before: str, domain: str = DOMAIN) -> PublishedCommit:
        """Let garbage collection delete files older than this ULID that no manifest names (P27)."""

    async def merge(self) -> PublishedCommit | None:
        """Merge the tail into the base where that is due; None if it is not."""
