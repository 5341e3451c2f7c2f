"""`arco up`: all of Arco on one machine, in one process."""

from typing import TYPE_CHECKING

from arco.cli.place import Place
from arco.cli.serve import Listening
from arco.cli.settings import Flag

if TYPE_CHECKING:
    from arco.core.runtime import Runtime

_READY = (
    "Arco is ready at {{url}}, on {store}. Next: `arco catalog list`, `arco sql 'SHOW TABLES'`, "
    "or open {{url}}/api/v1/docs; Ctrl-C stops it."
)


def up(
    *, place: Place | None = None, listening: Listening | None = None, sample: Flag = False
) -> None:
    """Run everything on this machine: the API, the compactor and garbage collection.

    Parameters
    ----------
    place
        Where the metadata are.
    listening
        How it is reached.
    sample
        Put a small sample catalog in, for a first look around.
    """
    from arco.cli.serve import check_listening
    from arco.core.runtime import system_runtime
    from arco.core.tasks import run

    listening = listening or Listening()
    check_listening(listening)
    run(_serve(place or Place(), listening, system_runtime(), sample=sample))


async def _serve(place: Place, listening: Listening, runtime: "Runtime", *, sample: bool) -> None:
    from arco.api.app import make_app
    from arco.api.metrics import Metrics
    from arco.catalog.decision import Rules
    from arco.cli.sample import fill
    from arco.cli.serve import log_to_stderr, make_services, serve, watched_backend
    from arco.cli.workspace import open_workspace
    from arco.compactor.compactor import Compactor
    from arco.compactor.janitor import Janitor
    from arco.storage.open import open_store
    from arco.storage.roles import Role

    metrics, log = Metrics(), log_to_stderr(runtime, listening.log_level)
    backend = watched_backend(place, runtime, metrics)
    stores = {
        role: await open_store(backend, runtime, role=role, scope=place.scope())
        for role in (Role.API, Role.COMPACTOR, Role.JANITOR)
    }
    compactor = Compactor(stores[Role.COMPACTOR])
    rules = Rules(own_roots=place.own_roots())
    workspace = open_workspace(stores[Role.API], compactor, rules)
    services = make_services(
        place, workspace, auth=listening.auth, runtime=runtime, log=log, metrics=metrics
    )
    janitor = Janitor(stores[Role.JANITOR], compactor)
    await workspace.begin()
    if sample:
        await fill(workspace.committer)
    cleaning = runtime.tasks.spawn(janitor.run())
    try:
        ready = _READY.format(store=place.describe())
        await serve(make_app(services), listening, log, ready)
    finally:
        janitor.close()
        cleaning.cancel()  # a collection may end anywhere; the next finds what it has left
        await services.engine.close()
        await workspace.close()
        await compactor.close()
