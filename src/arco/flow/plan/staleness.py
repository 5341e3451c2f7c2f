"""Why a partition has to be made: missing, failed, or out of date with its code, inputs or age."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from arco.core.duration import print_duration, rough_duration
from arco.flow.define.asset import AssetDef
from arco.flow.define.check_rules import Freshness
from arco.flow.partition.time_dimension import TimeDimension
from arco.flow.plan.context import InputPartitions, TableIndex
from arco.flow.plan.graph import MakerDef
from arco.flow.plan.input_fingerprint import fingerprint_function
from arco.flow.plan.keys import describe_keys, short_name
from arco.flow.plan.plan import Reason
from arco.flow.plan.upstream import NO_LEVEL, Upstream

_FAILED = "FAILED"


class Staleness(NamedTuple):
    """Why a partition has to be made, as a reason and as a sentence."""

    reason: Reason
    detail: str


_FORCED = Staleness(Reason.FORCED, "it was asked for")


@dataclass(frozen=True)
class StalenessCheck:
    """Compares partitions of a maker with the state of its outputs and inputs.

    For a task that writes no table the state may hold only a time, and neither code nor inputs.
    """

    maker: MakerDef
    keys: Sequence[str]
    code: str
    outputs: Sequence[TableIndex]
    own: TableIndex  # the state under the maker's own name: of its first output, or of a task
    inputs: Sequence[InputPartitions]
    upstreams: Sequence[Upstream]
    now_ms: int

    def all(self) -> Iterator[Staleness | None]:
        """For each partition why it has to be made, None if it is up to date."""
        if self.upstreams or len(self.outputs) > 1 or self._oldest_ms is not None:
            return (self._staleness(number, key) for number, key in enumerate(self.keys))
        return self._single_output()

    def forced(self) -> Iterator[Staleness]:
        """For each partition why it is made if it is asked for, whatever its state.

        Where a task was killed between two tables that it appends to, `--force` completes the partition as
        a run without it does: rows that exist must not be appended again.
        """
        maker = self.maker
        completes = (
            isinstance(maker, AssetDef)
            and maker.mode.kind == "append"
            and maker.mode.on_change != "replace"
        )
        for key in self.keys:
            has_rows = completes and any(table.by_key.get(key) for table in self.outputs)
            yield (self._without_data(key) if has_rows else None) or _FORCED

    def is_current(self, table: TableIndex, number: int, key: str) -> bool:
        """Whether an output was made by the current code from the current inputs."""
        row, state = table.rows[key], table.state
        return (
            state.code_fingerprints[row] == self.code
            and self._upstream_in_plan(number) is None
            and state.input_fingerprints[row] == self.fingerprints[number]
        )

    def _single_output(self) -> Iterator[Staleness | None]:
        """A fast path for one output without upstreams: most rows are up to date."""
        table, code = self.outputs[0], self.code
        row_of, state = table.rows.get, table.state
        for number, key in enumerate(self.keys):
            row = row_of(key)
            if (
                row is None
                or state.code_fingerprints[row] != code
                or state.materials[row] is None
                or state.statuses[row] == _FAILED
                or state.input_fingerprints[row] != self.fingerprints[number]
            ):
                yield self._staleness(number, key)
            else:
                yield None

    def _staleness(self, number: int, key: str) -> Staleness | None:
        missing = self._without_data(key)
        if missing is not None:
            return missing
        changed = self._changed(number, key)
        return self._after_failure(key, is_current=changed is None) or changed

    def _changed(self, number: int, key: str) -> Staleness | None:
        """Why the existing data of a partition are out of date."""
        return (
            self._other_code(key)
            or self._upstream_in_plan(number)
            or self._other_inputs(number, key)
            or self._too_old(key)
        )

    def _without_data(self, key: str) -> Staleness | None:
        for table in self.outputs:
            if table.by_key.get(key) is None:
                if _has_failed(table, key) or _has_failed(self.own, key):
                    return self._failed("there are no data yet")
                if not self.maker.outputs:
                    return Staleness(Reason.MISSING, "it has not run yet")
                which = f" in {short_name(table.name)}" if len(self.outputs) > 1 else ""
                return Staleness(Reason.MISSING, f"there are no data yet{which}")
        return None

    def _after_failure(self, key: str, *, is_current: bool) -> Staleness | None:
        """That the last attempt failed, unless the existing data of an asset are current.

        They are current again after a code change that failed was reverted. A task writes its tables
        itself, so after a failure they may be half written.
        """
        if is_current and isinstance(self.maker, AssetDef):
            return None
        for table in self.outputs:
            if _has_failed(table, key):
                return self._failed("older data still exist")
        return None

    def _failed(self, data: str) -> Staleness:
        """That the last attempt failed, with a note on the existing data if it writes a table."""
        more = f", {data}" if self.maker.outputs else ""
        return Staleness(Reason.FAILED, f"the last attempt failed{more}")

    def _other_code(self, key: str) -> Staleness | None:
        for table in self.outputs:
            made_by = table.state.code_fingerprints[table.rows[key]]
            if made_by == self.code or (made_by is None and not self.maker.outputs):
                continue
            name = short_name(self.maker.name)
            if made_by is None:
                detail = f"it is not recorded which code of {name} made it"
            else:
                detail = f"the code of {name} was {made_by[:8]} and is {self.code[:8]}"
            return Staleness(Reason.CODE_CHANGED, detail)
        return None

    def _upstream_in_plan(self, number: int) -> Staleness | None:
        for upstream in self.upstreams:
            if upstream.level(number) != NO_LEVEL:
                name = short_name(upstream.input.table.name)
                which = describe_keys(upstream.planned_keys(number))
                return Staleness(Reason.UPSTREAM_CHANGED, f"{name} is made in this plan: {which}")
        return None

    def _other_inputs(self, number: int, key: str) -> Staleness | None:
        for table in self.outputs:
            recorded = table.state.input_fingerprints[table.rows[key]]
            if recorded is None and not self.maker.outputs:
                changed = bool(self._newer(number, key))
            else:
                changed = recorded != self.fingerprints[number]
            if changed:
                return Staleness(Reason.UPSTREAM_CHANGED, self._which_changed(number, key))
        return None

    @cached_property
    def fingerprints(self) -> list[str]:
        """The input fingerprint that each partition would get if it were made now."""
        fingerprint = fingerprint_function(self.code, [each.table.identity for each in self.inputs])
        columns = [each.digests for each in self.inputs]
        return (
            list(map(fingerprint, zip(*columns, strict=True)))
            if columns
            else [fingerprint(())] * len(self.keys)
        )

    def _which_changed(self, number: int, key: str) -> str:
        """The inputs that are newer; for other changes it is not recorded which input changed."""
        newer = self._newer(number, key)
        if newer is not None:
            return newer
        names = ", ".join(dict.fromkeys(short_name(each.table.name) for each in self.inputs))
        return f"it was made from other data of {names}" if names else "it was made from other data"

    def _newer(self, number: int, key: str) -> str | None:
        """The first input that has changed since the partition was made."""
        mine = min((at for table in self.outputs if (at := table.made_at_ms(key))), default=None)
        for read in self.inputs:
            newer = [
                one for one in read.keys(number) if _is_newer(read.table.made_at_ms(one), mine)
            ]
            if newer:
                return f"{short_name(read.table.name)} is newer: {describe_keys(newer)}"
        return None

    @cached_property
    def _oldest_ms(self) -> int | None:
        """Data made before this time are too old; partitions of time do not age."""
        if not isinstance(self.maker, AssetDef):
            return None
        if any(isinstance(each, TimeDimension) for each in self.maker.partitions):
            return None
        rules = [each.rule for each in self.maker.checks]
        limits = [
            rule.within_ms for rule in rules if isinstance(rule, Freshness) and rule.column is None
        ]
        return self.now_ms - min(limits) if limits else None

    def _too_old(self, key: str) -> Staleness | None:
        if self._oldest_ms is None:
            return None
        for table in self.outputs:
            made_at = table.made_at_ms(key)
            if made_at is not None and made_at < self._oldest_ms:
                since = rough_duration(self.now_ms - made_at)
                most = print_duration(self.now_ms - self._oldest_ms)
                return Staleness(Reason.FRESHNESS, f"it is {since} old, and may be {most}")
        return None


def _has_failed(table: TableIndex, key: str) -> bool:
    row = table.rows.get(key)
    return row is not None and table.state.statuses[row] == _FAILED


def _is_newer(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one > other
