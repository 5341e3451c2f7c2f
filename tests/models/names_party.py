"""Who makes, drops, restores and tidies tables, step by step.

Tier 1 decides each of its requests in one step; everything before and after may stall for ever.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from tests.models.names_store import (
    TOMBSTONE,
    VERSION,
    Names,
    Party,
    Row,
    append,
    is_live,
)
from tests.models.rules import NameRules

Act = tuple[str, Party, Names]
Work = Literal["create", "drop", "undrop", "commit", "finish"]


class Role(NamedTuple):
    name: str
    work: Work
    table: int = -1  # where the name does not determine it
    may_crash: bool = False


class Actor:
    def __init__(self, rules: NameRules, role: Role) -> None:
        self.rules = rules
        self.role = role

    def act(self, names: Names, party: Party) -> Iterator[Act]:
        if self.role.may_crash and party.doing not in ("begin", "gone"):
            yield "crashes", _ended(), names
        match party.doing:
            case "begin":
                yield from self._begin(names)
            case "read":
                yield from self._read(names, party)
            case "point":
                yield from self._point(names, party)
            case "name":
                yield from self._name(names, party)
            case "release":
                yield self._release(names, party)
            case "give back":
                yield self._give_back(names, party)

    def _begin(self, names: Names) -> Iterator[Act]:
        """Resolve the name, or take the table that the role is about."""
        row = names.row
        match self.role.work:
            case "create":
                yield from self._point(names, Party("point", self.role.table))
            case "undrop":
                yield from self._read(names, Party("read", self.role.table))
            case "finish":
                yield from self._meet(names)
            case _:
                if row:
                    yield f"resolves {row.table}", Party("read", row.table), names

    def _meet(self, names: Names) -> Iterator[Act]:
        row = names.row
        if row is None or is_live(names, row.table):
            return
        number = len(names.chains[row.table]) - 1
        if self._released(names, row.table, number) != names:
            yield f"meets {row.table} dead", Party("release", row.table, number), names

    def _read(self, names: Names, party: Party) -> Iterator[Act]:
        number = len(names.chains[party.table])
        label = f"reads {party.table} to {number - 1}"
        following = party._replace(doing="point", number=number)
        match self.role.work:
            case "undrop" if is_live(names, party.table):
                return
            case "undrop" if self._name_first():
                following = following._replace(doing="name")
            case "drop" if is_live(names, party.table) and not self.rules.tombstone_first:
                following = following._replace(doing="release")
            case "commit" if not self.rules.tombstone_ends_chain:
                pass
            case "drop" | "commit" if not is_live(names, party.table):
                yield f"{label}, answers 404", _ended(), names
                return
        yield label, following, names

    def _point(self, names: Names, party: Party) -> Iterator[Act]:
        kind = TOMBSTONE if self.role.work == "drop" else VERSION
        grown = append(names, party.table, party.number, kind)
        if grown is None:
            rereading = party._replace(doing="read", number=0)
            lost = _ended() if self.role.work in ("create", "undrop") else rereading
            yield f"finds {party.number} of {party.table} taken", lost, names
            return
        yield self._pointed(f"puts a {kind} at {party.number} of {party.table}", grown, party)

    def _pointed(self, label: str, names: Names, party: Party) -> Act:
        match self.role.work:
            case "create":
                return label, party._replace(doing="name"), names
            case "undrop":
                undenied = names._replace(denied=names.denied - {party.table})
                if self._name_first():
                    return self._promise(label, undenied, party)
                return label, party._replace(doing="name"), undenied
            case "drop":
                dropped = names._replace(promised=names.promised - {party.table})
                if not self.rules.tombstone_first:
                    return f"{label}, answers 204", _ended(), _deny(dropped, party)
                return label, party._replace(doing="release"), dropped
            case _:
                return label, _ended(), names

    def _name(self, names: Names, party: Party) -> Iterator[Act]:
        """Tier 1 decides; a name that leads to a dead chain is released on the way."""
        row = names.row
        if row is not None and row.table != party.table:
            if not is_live(names, row.table):
                yield self._make_room(names, party, row.table)
            elif self._name_first():
                yield "finds the name taken, answers 409", _ended(), names
            else:
                yield "finds the name taken", party._replace(doing="give back"), names
            return
        created_at = (
            max(party.number, row.born) if row and self.rules.born_only_rises else party.number
        )
        with_name = names._replace(row=Row(party.table, created_at))
        label = f"names {party.table}, born at {created_at}"
        if self._name_first():
            yield label, party._replace(doing="point"), with_name
        else:
            yield self._promise(label, with_name, party)

    def _name_first(self) -> bool:
        return self.role.work == "undrop" and not self.rules.undrop_pointer_first

    def _make_room(self, names: Names, party: Party, table: int) -> Act:
        tombstone = len(names.chains[table]) - 1
        released = self._released(names, table, tombstone)
        return f"meets {table} dead, releases it", party, released

    def _promise(self, label: str, names: Names, party: Party) -> Act:
        """The answer is 2xx; who dropped the table in the meantime came after it."""
        since = names.chains[party.table][party.number + 1 :]
        if TOMBSTONE not in since:
            names = names._replace(promised=names.promised | {party.table})
        return f"{label}, answers 2xx", _ended(), names

    def _release(self, names: Names, party: Party) -> Act:
        released = self._released(names, party.table, party.number)
        label = f"releases {party.table}, dead at {party.number}"
        if self.role.work == "finish":
            return label, Party(), released
        if not self.rules.tombstone_first:
            return label, party._replace(doing="point"), released
        return f"{label}, answers 204", _ended(), _deny(released, party)

    def _released(self, names: Names, table: int, tombstone: int) -> Names:
        row = names.row
        if row is None or row.table != table:
            return names
        if self.rules.release_only_if_born_before and row.born >= tombstone:
            return names
        return names._replace(row=None)

    def _give_back(self, names: Names, party: Party) -> Act:
        """The name is another's: the chain that was begun ends, and the answer is 409."""
        ended = append(names, party.table, party.number + 1, TOMBSTONE)
        return f"ends {party.table}, answers 409", _ended(), ended or names


def _deny(names: Names, party: Party) -> Names:
    """A drop is answered; what was undropped in the meantime is not denied."""
    chain = names.chains[party.table]
    if len(chain) > party.number + 1:
        return names
    return names._replace(denied=names.denied | {party.table})


def _ended() -> Party:
    return Party("gone")
