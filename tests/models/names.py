"""Create, drop and undrop of tables under one name (P31).

The name stands in Tier 1, the table in its chain, and no two writes span them. Two droppers, two
that restore, one that creates another table of the name, one that commits, and one that releases
a name that leads to a dead chain. A process that is never scheduled again has crashed; only those that
restore crash in a separate step, to see what is left when all others are done.
"""

from collections.abc import Iterator

from tests.models.explorer import Model
from tests.models.names_party import Actor, Role
from tests.models.names_store import NEW, OLD, VERSION, Names, Party, Row, is_live, is_visible
from tests.models.rules import NameRules

ROLES = (
    Role("creator", "create", NEW),
    Role("first dropper", "drop"),
    Role("second dropper", "drop"),
    Role("first undropper", "undrop", OLD, may_crash=True),
    Role("second undropper", "undrop", OLD, may_crash=True),
    Role("committer", "commit"),
    Role("finisher", "finish"),
)


class NameModel(Model[Names]):
    def __init__(self, rules: NameRules | None = None, roles: tuple[Role, ...] = ROLES) -> None:
        self.actors = [Actor(rules or NameRules(), role) for role in roles]

    def initial(self) -> Names:
        chains: tuple[tuple[str, ...], ...] = ((VERSION,), ())
        parties = (Party(),) * len(self.actors)
        return Names(chains, Row(OLD, 0), parties, frozenset({OLD}), frozenset())

    def violation(self, names: Names) -> str | None:
        for table in (OLD, NEW):
            if table in names.promised and not is_visible(names, table):
                return "an acknowledged table is gone"
            if table in names.denied and is_live(names, table):
                return "a dropped table lives on"
        return None

    def final(self, names: Names) -> str | None:
        if names.row and not is_live(names, names.row.table):
            return "a name leads nowhere for ever"
        return None

    def steps(self, names: Names) -> Iterator[tuple[str, Names]]:
        for index, (actor, party) in enumerate(zip(self.actors, names.parties, strict=True)):
            before, after = names.parties[:index], names.parties[index + 1 :]
            for label, changed, result in actor.act(names, party):
                parties = (*before, changed, *after)
                yield f"{actor.role.name} {label}", result._replace(parties=parties)
