"""Mappings that follow the asset's own dimensions: the same partition, some before it, those within it.

A dimension of the input hangs on the one of the same name; where names differ, on the only other dimension
of time, if both have exactly one. What is left of the input's dimensions is read whole.
"""

from dataclasses import dataclass

from arco.core.errors import Invalid
from arco.flow.partition.calendar import Calendar, Daily
from arco.flow.partition.dimension import Dimension
from arco.flow.partition.hourly import Hourly
from arco.flow.partition.link import OTHERWISE, Free, Link, Shifted, listed_link
from arco.flow.partition.mapping import Linked, Mapping
from arco.flow.partition.product import Partitions
from arco.flow.partition.timed import Timed
from arco.flow.partition.zone import hour_shift_s


@dataclass(frozen=True)
class Shift(Linked):
    """Each partition reads those from `back` to `ahead` of its own, and the same in all else."""

    label: str
    back: int = 0
    ahead: int = 0
    same: bool = True
    finer: bool = True
    timed: bool = True
    whole: bool = True
    renamed: bool = True

    def links(self, of: Partitions, reads: Partitions) -> tuple[Link | Free, ...]:
        partners = _partners(of, reads)
        links = tuple(self._link(dimension, partners, of) for dimension in reads)
        timed = sum(isinstance(link, Shifted) for link in links)
        if self.timed and timed != 1:
            raise Invalid(
                f"{self.label} needs one dimension of time that the asset and its input share, and "
                f"they share {timed} (asset: {_names(of)}; input: {_names(reads)}): {OTHERWISE}"
            )
        return links

    def _link(
        self, dimension: Dimension, partners: dict[str, Dimension], of: Partitions
    ) -> Link | Free:
        partner = partners.get(dimension.name)
        if partner is None and not self.whole:
            raise Invalid(
                f"{self.label} needs each dimension of the input, and the asset (by {_names(of)}) "
                f"lacks {dimension.name!r}: {OTHERWISE}"
            )
        if isinstance(dimension, Timed) and isinstance(partner, Timed):
            return self._shifted(partner, dimension)
        return listed_link(dimension, of)

    def _shifted(self, of: Timed, reads: Timed) -> Shifted:
        same = _is_same(of, reads)
        if same and not self.same:
            raise Invalid(
                f"{self.label} gathers what is finer, and {reads.name!r} of the input is {of.grain} "
                "like that of the asset: write mapping=identity"
            )
        if not same and not self.finer:
            raise Invalid(
                f"{self.label} needs the same grain, and the input has {reads.grain} for {of.grain} "
                "of the asset: write mapping=roll_up"
            )
        if same and not self.renamed and of.name != reads.name:
            raise Invalid(
                f"{reads.name!r} of the input and {of.name!r} of the asset are both {of.grain} but "
                "have different names, so they may mean different things: write mapping=identity "
                "if they mean the same, or partitions='all'"
            )
        return Shifted(of, reads, self.back, self.ahead)


def window(count: int) -> Mapping:
    """The same partition and those before it, `count` in all."""
    if not _is_whole(count) or count < 1:
        raise Invalid(f"window={count!r} reads nothing: write a whole number from 1, as window=7")
    return Shift(f"window={count}", back=1 - count)


def offset(steps: int) -> Mapping:
    """The partition so many steps later, or earlier if below zero."""
    if not _is_whole(steps):
        raise Invalid(
            f"offset={steps!r} is not a number of steps: write offset=-1 for the one before"
        )
    return Shift(f"offset={steps}", back=steps, ahead=steps)


identity: Mapping = Shift("identity", finer=False, timed=False, whole=False)
roll_up: Mapping = Shift("roll_up", same=False)


def default_mapping(of: Partitions, reads: Partitions) -> Mapping:
    """What is meant when nothing is said; Invalid if that is not clear.

    Shared dimensions are the same, finer ones of time roll up, missing ones are read whole.
    """
    mapping = Shift("the default mapping", timed=False, renamed=False)
    mapping.check(of, reads)
    return mapping


def _partners(of: Partitions, reads: Partitions) -> dict[str, Dimension]:
    """The dimension of the asset on which each one of the input hangs, if any."""
    found = {dimension.name: dimension for dimension in of if dimension.name in reads.names}
    asking = [one for one in reads if isinstance(one, Timed) and one.name not in found]
    offered = [one for one in of if isinstance(one, Timed) and one.name not in found]
    if len(asking) == 1 and len(offered) == 1:
        found[asking[0].name] = offered[0]
    return found


def _is_same(of: Timed, reads: Timed) -> bool:
    """If both have one grain; False if the input's is finer, Invalid if it does not fit."""
    if isinstance(of, Hourly) and isinstance(reads, Hourly):
        if of.tz != reads.tz:
            raise Invalid(
                f"the hours of {of.name!r} are of {of.tz} and those of the input of {reads.tz}, so "
                f"they have different names: write the same tz for both, or {OTHERWISE}"
            )
        return True
    if type(of) is type(reads):
        return True
    if isinstance(reads, Hourly) and isinstance(of, Calendar):
        _check_hours(of, reads)
        return False
    if isinstance(reads, Daily) and isinstance(of, Calendar):
        return False
    raise Invalid(
        f"{reads.grain} of the input does not fit into {of.grain} of the asset, so there is no "
        f"telling which one to read: {OTHERWISE}"
    )


def _check_hours(of: Calendar, reads: Hourly) -> None:
    """Hours fill a day only if one begins at its midnight."""
    year = int(str(of.start)[:4])
    if hour_shift_s(of.zone, year) != reads.shift_s:
        raise Invalid(
            f"midnight in {of.tz} is within an hour of {reads.tz}: write tz={of.tz!r} for the hours "
            f"of the input, or {OTHERWISE}"
        )


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _names(partitions: Partitions) -> str:
    return ", ".join(map(repr, partitions.names)) or "nothing"
