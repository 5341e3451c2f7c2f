"""`arco compactor`: the sole writer of published state, as a service of its own for one workspace."""

from typing import TYPE_CHECKING

from arco.cli.place import Place
from arco.cli.serve import Auth, Listening, LogLevel

if TYPE_CHECKING:
    from arco.core.runtime import Runtime

_READY = "The compactor of Arco is ready at {{url}}, on {store}, for {tenant}/{workspace}."


def compactor(
    *,
    place: Place | None = None,
    host: str = "127.0.0.1",
    port: int = 8182,
    log_level: LogLevel = LogLevel.INFO,
) -> None:
    """Run the compactor of one workspace. The service token comes from ARCO_SERVICE_TOKEN.

    Parameters
    ----------
    place
        Where the metadata are: ARCO_STORAGE_BUCKET, ARCO_TENANT_ID and ARCO_WORKSPACE_ID work too.
    host
        The address to listen on.
    port
        The port to listen on; 0 for any that is free.
    log_level
        Which log lines to write to stderr.
    """
    from arco.core.runtime import system_runtime
    from arco.core.tasks import run

    listening = Listening(host, port, Auth.LOCAL, log_level)
    run(_serve(place or Place(), listening, system_runtime()))


async def _serve(place: Place, listening: Listening, runtime: "Runtime") -> None:
    from arco.access.service import ServiceToken
    from arco.api.internal import InternalServices, make_internal_app
    from arco.api.metrics import Metrics
    from arco.catalog.manifest import manifests_of
    from arco.cli.api import service_token
    from arco.cli.serve import log_to_stderr, serve, watched_backend
    from arco.compactor.compactor import Compactor
    from arco.fold.tier1 import DOMAIN
    from arco.storage.open import open_store
    from arco.storage.roles import Role

    scope = place.scope()
    identity = ServiceToken(service_token(), scope)
    metrics, log = Metrics(), log_to_stderr(runtime, listening.log_level)
    backend = watched_backend(place, runtime, metrics)
    store = await open_store(backend, runtime, role=Role.COMPACTOR, scope=scope)
    manifests = manifests_of(store, DOMAIN)

    async def look() -> int:
        return (await manifests.head()).number

    worker = Compactor(store)
    services = InternalServices(
        runtime=runtime,
        scope=scope,
        identity=identity,
        compactor=worker,
        look=look,
        log=log,
        metrics=metrics,
    )
    ready = _READY.format(store=place.describe(), tenant=scope.tenant, workspace=scope.workspace)
    try:
        await serve(make_internal_app(services), listening, log, ready)
    finally:
        await worker.close()
