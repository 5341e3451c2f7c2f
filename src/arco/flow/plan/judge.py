"""Why a partition has to be made, or that it need not be."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from arco.flow.define.asset import AssetDef
from arco.flow.define.check import Freshness
from arco.flow.duration import print_duration, rough_duration
from arco.flow.partition.time_dimension import TimeDimension
from arco.flow.plan.above import Above
from arco.flow.plan.fingerprints import fingerprinting
from arco.flow.plan.graph import MakerDef
from arco.flow.plan.inputs import Input
from arco.flow.plan.key import short_name
from arco.flow.plan.known import KnownTable
from arco.flow.plan.placed import NOWHERE
from arco.flow.plan.plan import Reason
from arco.flow.plan.runs import listed

_FAILED = "FAILED"


class Verdict(NamedTuple):
    """A reason, and the same in a sentence."""

    reason: Reason
    detail: str


@dataclass(frozen=True)
class Judge:
    """Some partitions of a maker, and what is known of its outputs and inputs.

    Of a task that writes no table it may be that only its time was recorded, and neither code nor inputs.
    """

    maker: MakerDef
    keys: Sequence[str]
    code: str
    outputs: Sequence[KnownTable]
    own: KnownTable  # what is known under the maker's own name: its first output, or that of a task
    inputs: Sequence[Input]
    above: Sequence[Above]
    now_ms: int

    def verdicts(self) -> Iterator[Verdict | None]:
        """For each partition why it has to be made; None if it is up to date."""
        if self.above or len(self.outputs) > 1 or self._oldest_ms is not None:
            return (self._verdict(number, key) for number, key in enumerate(self.keys))
        return self._simple_verdicts()

    def is_current(self, table: KnownTable, number: int, key: str) -> bool:
        """Whether an output holds what would be made now, by the same code from the same data."""
        row, state = table.rows[key], table.state
        return (
            state.code_fingerprints[row] == self.code
            and self._above_in_plan(number) is None
            and state.input_fingerprints[row] == self.fingerprints[number]
        )

    def _simple_verdicts(self) -> Iterator[Verdict | None]:
        """The same where nearly all is up to date and one look at a row tells it."""
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
                yield self._verdict(number, key)
            else:
                yield None

    def _verdict(self, number: int, key: str) -> Verdict | None:
        missing = self._without_data(key)
        if missing is not None:
            return missing
        changed = self._changed(number, key)
        return self._after_failure(key, is_current=changed is None) or changed

    def _changed(self, number: int, key: str) -> Verdict | None:
        """How the data of a partition differ from what would be made now."""
        return (
            self._other_code(key)
            or self._above_in_plan(number)
            or self._other_inputs(number, key)
            or self._too_old(key)
        )

    def _without_data(self, key: str) -> Verdict | None:
        for table in self.outputs:
            if table.by_key.get(key) is None:
                if _has_failed(table, key) or _has_failed(self.own, key):
                    return self._failed("there are no data yet")
                if not self.maker.outputs:
                    return Verdict(Reason.MISSING, "it has not run yet")
                which = f" in {short_name(table.name)}" if len(self.outputs) > 1 else ""
                return Verdict(Reason.MISSING, f"there are no data yet{which}")
        return None

    def _after_failure(self, key: str, *, is_current: bool) -> Verdict | None:
        """That the last attempt failed, unless the data of an asset are what another one would make.

        So it is once a change of code that failed was taken back. What a task writes by itself may be half
        done after a failure, whatever is recorded of it.
        """
        if is_current and isinstance(self.maker, AssetDef):
            return None
        for table in self.outputs:
            if _has_failed(table, key):
                return self._failed("older data are still there")
        return None

    def _failed(self, data: str) -> Verdict:
        """That the last attempt failed, and what that means for data, if it makes any."""
        more = f", {data}" if self.maker.outputs else ""
        return Verdict(Reason.FAILED, f"the last attempt failed{more}")

    def _other_code(self, key: str) -> Verdict | None:
        for table in self.outputs:
            made_by = table.state.code_fingerprints[table.rows[key]]
            if made_by == self.code or (made_by is None and not self.maker.outputs):
                continue
            name = short_name(self.maker.name)
            if made_by is None:
                detail = f"it is not recorded which code of {name} made it"
            else:
                detail = f"the code of {name} was {made_by[:8]} and is {self.code[:8]}"
            return Verdict(Reason.CODE_CHANGED, detail)
        return None

    def _above_in_plan(self, number: int) -> Verdict | None:
        for each in self.above:
            if each.level(number) != NOWHERE:
                name = short_name(each.input.table.name)
                which = listed(each.planned(number))
                return Verdict(Reason.UPSTREAM_CHANGED, f"{name} is made in this plan: {which}")
        return None

    def _other_inputs(self, number: int, key: str) -> Verdict | None:
        for table in self.outputs:
            recorded = table.state.input_fingerprints[table.rows[key]]
            if recorded is None and not self.maker.outputs:
                changed = bool(self._newer(number, key))
            else:
                changed = recorded != self.fingerprints[number]
            if changed:
                return Verdict(Reason.UPSTREAM_CHANGED, self._which_changed(number, key))
        return None

    @cached_property
    def fingerprints(self) -> list[str]:
        """What would be recorded for each partition if it were made now."""
        told = fingerprinting(self.code, [each.table.identity for each in self.inputs])
        columns = [each.digests for each in self.inputs]
        return (
            list(map(told, zip(*columns, strict=True))) if columns else [told(())] * len(self.keys)
        )

    def _which_changed(self, number: int, key: str) -> str:
        """What is newer than the partition; which of the others changed is not recorded."""
        newer = self._newer(number, key)
        if newer is not None:
            return newer
        names = ", ".join(dict.fromkeys(short_name(each.table.name) for each in self.inputs))
        return f"it was made from other data of {names}" if names else "it was made from other data"

    def _newer(self, number: int, key: str) -> str | None:
        """The first input that has changed since the partition was made."""
        mine = min((at for table in self.outputs if (at := table.made_at_ms(key))), default=None)
        for each in self.inputs:
            newer = [
                one for one in each.keys(number) if _is_newer(each.table.made_at_ms(one), mine)
            ]
            if newer:
                return f"{short_name(each.table.name)} is newer: {listed(newer)}"
        return None

    @cached_property
    def _oldest_ms(self) -> int | None:
        """When data must have been made to be fresh enough; pieces of time never get old."""
        if not isinstance(self.maker, AssetDef):
            return None
        if any(isinstance(each, TimeDimension) for each in self.maker.partitions):
            return None
        rules = [each.rule for each in self.maker.checks]
        limits = [
            rule.within_ms for rule in rules if isinstance(rule, Freshness) and rule.column is None
        ]
        return self.now_ms - min(limits) if limits else None

    def _too_old(self, key: str) -> Verdict | None:
        if self._oldest_ms is None:
            return None
        for table in self.outputs:
            made_at = table.made_at_ms(key)
            if made_at is not None and made_at < self._oldest_ms:
                since = rough_duration(self.now_ms - made_at)
                most = print_duration(self.now_ms - self._oldest_ms)
                return Verdict(Reason.FRESHNESS, f"it is {since} old, and may be {most}")
        return None


def _has_failed(table: KnownTable, key: str) -> bool:
    row = table.rows.get(key)
    return row is not None and table.state.statuses[row] == _FAILED


def _is_newer(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one > other
