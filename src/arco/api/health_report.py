"""The health report: for people and dashboards, where the probes only answer yes or no.

A process is `degraded` as soon as there is a reason, and each reason says what to do.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from arco.api.health_monitor import (
    CompactionState,
    CompactionStatus,
    DiskSpace,
    DomainLag,
    HealthObservation,
    HealthSources,
    RemoteCompaction,
    RemoteReason,
    age_ms,
)
from arco.api.responses import ResponseModel
from arco.core.clock import Clock
from arco.core.errors import ArcoError, Denied, StoreFull, StoreReadOnly

LATE_MS = 30_000
LATE_WHILE_STARTING_MS = 90_000

# A disk with less free space than this is nearly full, unless it is a small one.
_LOW_SPACE_BYTES = 64 * 1024 * 1024
_LOW_SPACE_SHARE = 0.05

_READ_LOG = (
    "Look for `compaction` in the log of the process that compacts; if it has written nothing since, "
    "end that process and start it again"
)


class HealthReason(ResponseModel, frozen=True, kw_only=True):
    """Why a process is degraded: `code` for programs, `message` for people, with what to do."""

    code: str
    message: str
    domain: str | UnsetType = UNSET


class CompactionHealth(ResponseModel, frozen=True, kw_only=True):
    """Who compacts events: how that one is, and why."""

    state: CompactionState
    reason: str | UnsetType = UNSET


class HealthReport(ResponseModel, frozen=True, kw_only=True):
    """How this process is: degraded, if there are reasons for it.

    `domains` has the lag of each domain of events, or null if it could not be found out.
    """

    status: Literal["ok", "degraded"]
    reasons: tuple[HealthReason, ...]
    compaction: CompactionHealth
    domains: tuple[DomainLag, ...] | None


def report_of(observation: HealthObservation, sources: HealthSources) -> HealthReport:
    """The report on what was observed."""
    compaction = sources.compaction
    reasons = reasons_of(observation, compaction, sources.runtime.clock)
    return HealthReport(
        status="degraded" if reasons else "ok",
        reasons=reasons,
        compaction=CompactionHealth(
            state=compaction.state, reason=UNSET if compaction.reason is None else compaction.reason
        ),
        domains=observation.domains,
    )


def reasons_of(
    observation: HealthObservation, compaction: CompactionStatus, clock: Clock
) -> tuple[HealthReason, ...]:
    """All reasons to be degraded, those of the store first: most others follow from them."""
    remote = observation.compactor
    reasons = [*_store_reasons(observation), *_compactor_reasons(remote)]
    lags = [_with_current_age(each, clock) for each in observation.domains or ()]
    reasons += _compaction_reasons(lags, compaction)
    reasons += [
        _lag_reason(each, compaction)
        for each in lags
        if each.lag_ms > _limit_ms(compaction, remote)
    ]
    # A reason that the compactor reports replaces ours for the same domain: it knows more.
    reasons += [] if remote is None else [_from_remote(each) for each in remote.reasons]
    return tuple({each.domain or each.code: each for each in reasons}.values())


def _with_current_age(lag: DomainLag, clock: Clock) -> DomainLag:
    """A lag that was read a moment ago, with its present age."""
    oldest = lag.oldest_received_at
    return lag if oldest is UNSET else msgspec.structs.replace(lag, lag_ms=age_ms(oldest, clock))


def _store_reasons(observation: HealthObservation) -> Iterator[HealthReason]:
    """What is wrong with the store, or with its disk."""
    disk = observation.disk
    if observation.domains is None:
        yield HealthReason(
            code="store_unreachable",
            message="The store does not answer, or holds what cannot be read. Check that it can be "
            "reached, and look for `failed` in the log.",
        )
    unwritable = refusal_of(observation)
    if unwritable is not None:
        yield unwritable
    elif disk is not None and _is_nearly_full(disk):
        yield HealthReason(
            code="disk_nearly_full",
            message=f"The disk of the store has {disk.free_bytes:,} bytes left. Free some space, or let "
            "`arco gc` delete what is too old; when it is full, writes are refused.",
        )


def refusal_of(observation: HealthObservation) -> HealthReason | None:
    """Why the store accepts no writes; None if it accepts them."""
    refusal = observation.refusal
    if refusal is None:
        return None
    code = refusal.code if isinstance(refusal, StoreFull) else "store_refuses_writes"
    return HealthReason(code=code, message=_refusal_message(refusal))


def _refusal_message(refusal: ArcoError) -> str:
    """What it means that the store accepts no writes, and what to do."""
    match refusal:
        case StoreReadOnly():
            return "The disk of the store is read-only: writes are refused. Mount it writable."
        case StoreFull():
            return "The disk of the store is full: writes are refused. Free some space on it."
        case Denied():
            return (
                "The store does not allow this process to write. Check its identity; `arco iam render` "
                "prints the policies."
            )
        case _:
            return "The store answers no write. Check that it can be reached, and its own health."


def _is_nearly_full(disk: DiskSpace) -> bool:
    return disk.free_bytes < min(_LOW_SPACE_BYTES, disk.total_bytes * _LOW_SPACE_SHARE)


def _compactor_reasons(compactor: RemoteCompaction | None) -> Iterator[HealthReason]:
    if compactor is not None and not compactor.is_reachable:
        yield HealthReason(
            code="compactor_unreachable",
            message="The compactor does not answer: reads go on, changes of the catalog are 503, and "
            "events wait. Start it again, or check the address in --compactor.",
        )


def _compaction_reasons(
    lags: list[DomainLag], compaction: CompactionStatus
) -> Iterator[HealthReason]:
    """Events wait, and no process compacts them."""
    if not any(each.lag_ms for each in lags):
        return
    if compaction.state == "off":
        yield HealthReason(
            code="compaction_off",
            message=f"Events wait, and nothing compacts them: {compaction.reason or 'it is switched off'}. "
            "Start Arco with Spark, or run `arco compactor --once`.",
        )
    if compaction.state == "restarting":
        yield HealthReason(
            code="compaction_restarting",
            message="Events wait, and Spark has ended or does not start; it is tried again. Look for "
            "`Spark failed` in the log.",
        )


def _limit_ms(compaction: CompactionStatus, remote: RemoteCompaction | None) -> int:
    """How long events may wait before that is a reason."""
    state = compaction.state if remote is None else remote.state
    return LATE_WHILE_STARTING_MS if state == "starting" else LATE_MS


def _lag_reason(lag: DomainLag, compaction: CompactionStatus) -> HealthReason:
    """Events of a domain have waited for too long, and why if that is known."""
    waited = f"Events of {lag.domain} have waited for {lag.lag_ms // 1000} s to be compacted"
    failure = compaction.failures.get(lag.domain)
    if failure is None:
        message = f"{waited}. {_READ_LOG}."
        return HealthReason(code="events_waiting", message=message, domain=lag.domain)
    cause = f"{failure.error}: {failure.detail}" if failure.detail else failure.error
    message = f"{waited}: compaction of {lag.domain} fails with {cause}. {_READ_LOG}."
    return HealthReason(code="domain_stuck", message=message, domain=lag.domain)


def _from_remote(reason: RemoteReason) -> HealthReason:
    domain = UNSET if reason.domain is None else reason.domain
    return HealthReason(code=reason.code, message=reason.message, domain=domain)
