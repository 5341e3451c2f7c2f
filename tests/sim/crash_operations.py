"""The operations whose crash points are explored, and the small catalog on which they are."""

from dataclasses import dataclass, field

from arco.catalog import ddl
from arco.catalog.model import TableFormat
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.core.scope import Scope
from arco.storage.roles import Role
from arco.storage.store import Store

from .catalog_api import UNDROP_FOR, Api, Call
from .catalog_notes import CatalogNotes, Intent, Outcome
from .faults import NONE
from .objects import SimObjects
from .process import Incarnation, Process
from .rpc import Called, Exchange, RemotePort, Wires
from .store import SimBackend
from .world import HOUR_MS, World

_S = ddl.SchemaName("default", ("s",))
_T = ddl.TableName("default", ("s",), "t")
_COLUMNS = (
    ddl.ColumnSpec(name="a", data_type="bigint"),
    ddl.ColumnSpec(name="b", data_type="string"),
)

_PREPARATION: tuple[ddl.Ddl, ...] = (
    ddl.CreateCatalog(name="c"),
    ddl.CreateSchema(catalog="default", name="s"),
    ddl.CreateSchema(catalog="default", parent=("s",), name="inner"),
    ddl.CreateSchema(catalog="c", name="z"),
    ddl.CreateTable(schema=_S, name="t", format=TableFormat.PARQUET, columns=_COLUMNS),
    ddl.CreateTable(schema=_S, name="gone", format=TableFormat.CSV),
    ddl.DropTable(target=ddl.TableName("default", ("s",), "gone")),
)


@dataclass
class Prepared:
    """A small catalog, how it came about, and the answers."""

    objects: SimObjects
    intents: list[Intent]
    calls: dict[str, Called]
    now_ms: float
    dropped_id: str = ""


@dataclass(frozen=True)
class Operation:
    """What is done once; a request, or a chore of the compactor or the janitor."""

    name: str
    request: ddl.Ddl | None = None
    keyed: bool = False
    kind: str = "ddl"
    mark: str = ""
    later_ms: float = 0.0  # so long after the preparation
    after: ddl.Ddl = field(
        default_factory=lambda: ddl.CreateCatalog(name="afterwards")  # what must work in the end
    )


def prepare(*, merged: bool = False) -> Prepared:
    """Make the catalog, one commit for each request; with an empty tail if it is to be merged."""
    world = World(0)
    objects = SimObjects(world, NONE)
    exchange = Exchange(world, Wires())
    notes = CatalogNotes()

    async def compact(incarnation: Incarnation) -> None:
        store = Store(
            SimBackend(objects, incarnation),
            incarnation.runtime,
            scope=Scope(),
            role=Role.COMPACTOR,
        )
        exchange.open("compactor", incarnation, CatalogCompactor(store, retention=UNDROP_FOR))

    async def work(incarnation: Incarnation) -> None:
        store = Store(
            SimBackend(objects, incarnation), incarnation.runtime, scope=Scope(), role=Role.API
        )
        port = RemotePort(exchange, incarnation)
        api = Api(incarnation, store, port, notes, objects, key_life_ms=round(5 * HOUR_MS))
        await incarnation.runtime.clock.sleep(10)
        await api.begin()
        for number, request in enumerate(_PREPARATION):
            if number == len(_PREPARATION) - 1:
                await port.merge()  # so that there is a base below the tail
            intent = Intent(f"prepare{number}", request, keyed=False)
            intent.sent, intent.sent_ms = len(objects.log), world.now_ms
            notes.intents.append(intent)
            await api.answer(
                Call(intent, incarnation.runtime.tasks.event(), intent.sent, world.now_ms)
            )
        if merged:
            await port.merge()
        await api.committer.close()
        world.stop()

    Process(world, "compactor", compact).start()
    Process(world, "api", work).start()
    world.run()
    world.close()
    if not all(
        intent.replies and intent.replies[0].outcome is Outcome.DONE for intent in notes.intents
    ):
        raise AssertionError("the preparation was not carried out")
    return Prepared(objects, notes.intents, exchange.calls, world.now_ms, notes.ids[-1])


def operations(prepared: Prepared) -> list[Operation]:
    """Every write operation of the catalog."""
    update = ddl.UpdateTable(target=_T, catalog="c", schema=("z",))
    create = ddl.CreateTable(schema=_S, name="new", format=TableFormat.PARQUET, columns=_COLUMNS)
    column = ddl.ColumnSpec(name="c", data_type="int")
    requests: dict[str, ddl.Ddl] = {
        "create_catalog": ddl.CreateCatalog(name="d"),
        "update_catalog": ddl.UpdateCatalog(target=ddl.CatalogName("c"), name="e"),
        "drop_catalog": ddl.DropCatalog(target=ddl.CatalogName("c"), force=True),
        "create_schema": ddl.CreateSchema(catalog="default", parent=("s", "inner"), name="deep"),
        "update_schema": ddl.UpdateSchema(target=_S, name="renamed"),
        "drop_schema": ddl.DropSchema(target=_S, force=True),
        "create_table": create,
        "update_table": update,
        "drop_table": ddl.DropTable(target=_T),
        "add_columns": ddl.AddColumns(target=_T, columns=(column,), position=0),
        "update_column": ddl.UpdateColumn(target=_T, column="a", name="z", position=1),
        "drop_column": ddl.DropColumn(target=_T, column="a"),
        "undrop": ddl.Undrop(id=prepared.dropped_id),
    }
    result = [Operation(name, request) for name, request in requests.items()]
    result.append(Operation("create_table with a key", create, keyed=True))
    result.append(Operation("merge", kind="merge"))
    result.append(Operation("mark_orphans", kind="mark", mark="01KDV000000000000000000000"))
    result.append(Operation("gc", kind="gc", later_ms=3.5 * HOUR_MS))
    return result
