"""The port to the compactor, which alone may publish (law 4); `cli` fills it, in process or over HTTP."""

from typing import Protocol

import msgspec

from arco.fold.tier1 import DOMAIN
from arco.ledger.envelope import Envelope


class SyncCompact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Publish these events as one commit, if no row has changed since `base_manifest`.

    The events travel along, so that the compactor need not read them back; `event_paths` says for each
    where it is stored, as `path#line`. The caller chooses `commit_ulid`, by which it can find out what
    became of a call whose answer was lost (P23). It also says which workspace it means, and the hash of
    its base: a number alone may be that of another chain.
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
    """It is published. `manifest` is the stored text of that number, which spares the caller a read."""

    manifest_version: int
    commit_ulid: str
    manifest: str | None = None


class CompactorPort(Protocol):
    """What the API may ask of the compactor."""

    async def sync_compact(self, call: SyncCompact) -> PublishedCommit:
        """Publish a commit.

        `Conflict`: rows have changed since the base, decide again. `Fenced`: the token is stale.
        `Invalid`: an event cannot be folded, nothing was done. `Unavailable`: nothing was done.
        `Unknown`, or anything else: it may have been published, or may yet be.
        """

    async def mark_orphans(self, before: str, domain: str = DOMAIN) -> PublishedCommit:
        """Publish that files of a domain older than this ULID which nobody names may go (P27)."""

    async def merge(self) -> PublishedCommit | None:
        """Merge what is due into the base; None if nothing is."""
