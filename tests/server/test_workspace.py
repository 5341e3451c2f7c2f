"""A workspace: its default catalog, its stop, and the settings of its clients."""

import asyncio
import io
import json
from pathlib import Path

import msgspec
import pytest

from arco.api.http.telemetry import Log
from arco.catalog.change import ChangeWork, ClaimId
from arco.catalog.compactor_port import Guard, PublishedCommit, SyncCompact, no_guard
from arco.catalog.ddl import CreateCatalog
from arco.catalog.decision import WorkspaceRules
from arco.catalog.pending_request import ChangeResult
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.core.errors import ArcoError, Corrupt
from arco.core.ids import new_object_id
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.ledger.claim import Answer, key_chain, key_path, read_key
from arco.server.api_process import create_default_catalog
from arco.server.workspace import Workspace, client_settings, open_workspace
from arco.server.workspace_address import WorkspaceAddress
from arco.storage.backend import Backend
from arco.storage.local import LocalBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.api.slow_store import Slow

SCOPE = Scope()
ENDPOINT = "http://minio:9000"


class LateOutcomes(Slow):
    """A store that writes the outcome of an idempotency key slowly."""

    async def create(self, key: str, body: bytes) -> None:
        if "/idempotency/" in key and key.endswith("0001.json"):
            await asyncio.sleep(0.5)
        await super().create(key, body)


class SlowCompactor(CatalogCompactor):
    """Slow, so that a stop can come in between."""

    async def sync_compact(self, call: SyncCompact, guard: Guard = no_guard) -> PublishedCommit:
        await asyncio.sleep(0.2)
        return await super().sync_compact(call, guard)


class Plain:
    """Renders the shortest answers."""

    def done(self, done: ChangeResult) -> Answer:
        return Answer(status=200, body=msgspec.Raw(str(done.number).encode()))

    def refused(self, problem: ArcoError) -> Answer:
        return Answer(status=400, body=msgspec.Raw(problem.code.encode()))


def handle(backend: Backend, runtime: Runtime, role: Role) -> Store:
    return Store(backend, runtime, scope=SCOPE, role=role)


def workspace_on(backend: Backend, runtime: Runtime) -> Workspace:
    compactor = SlowCompactor(handle(backend, runtime, Role.COMPACTOR))
    return open_workspace(handle(backend, runtime, Role.API), compactor, WorkspaceRules())


async def test_a_stop_waits_for_the_outcome_of_a_commit_under_way(
    tmp_path: Path, runtime: Runtime
) -> None:
    backend = LateOutcomes(LocalBackend(tmp_path, runtime, fsync=False))
    workspace = workspace_on(backend, runtime)
    await workspace.create_default_catalog(lambda _problem: None)
    path = key_path(SCOPE, principal="user:ann", api="v1", operation="CreateCatalog", key="k")
    request = CreateCatalog(name="lake")
    ids: dict[str, str] = {ClaimId.OBJECT: new_object_id(runtime)}
    work = ChangeWork(workspace.committer, lambda _: request, "user:ann", Plain(), ids)
    now_ms = runtime.clock.elapsed_ms()
    asking = asyncio.create_task(
        workspace.idempotency.once(path, "0" * 64, work, arrived_ms=now_ms)
    )
    await asyncio.sleep(0.1)
    assert not asking.done()  # else this shows nothing
    await workspace.close()
    chain = key_chain(handle(backend, runtime, Role.API), path)
    assert len(await read_key(chain)) == 2  # the claim and its outcome
    assert (await asking).status == 200


async def test_a_default_catalog_that_cannot_be_created_is_logged_and_ends_nothing(
    tmp_path: Path, runtime: Runtime
) -> None:
    backend = LocalBackend(tmp_path, runtime, fsync=False)
    await handle(backend, runtime, Role.COMPACTOR).create(
        f"manifests/catalog/{0:020d}.json", b"nonsense with a secret"
    )
    stream = io.BytesIO()
    workspace = workspace_on(backend, runtime)
    await create_default_catalog(workspace, Log(stream, runtime.clock), runtime)
    await workspace.close()
    line = json.loads(stream.getvalue())
    assert (line["level"], line["event"]) == ("error", "creation of the default catalog failed")
    assert line["error"] == Corrupt.__name__
    assert line["places"]
    assert "secret" not in stream.getvalue().decode()


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ("", {}),
        ("?region=eu-1", {"client.region": "eu-1", "s3.region": "eu-1"}),
        # Only at AWS a bucket has a host name: at an endpoint it goes into the path.
        (f"?endpoint={ENDPOINT}", {"s3.endpoint": ENDPOINT, "s3.path-style-access": "true"}),
        (f"?endpoint={ENDPOINT}&path_style=false", {"s3.endpoint": ENDPOINT}),
        ("?path_style=true", {"s3.path-style-access": "true"}),
    ],
)
def test_clients_get_the_settings_by_which_the_server_reaches_a_bucket(
    options: str, settings: dict[str, str]
) -> None:
    assert client_settings(WorkspaceAddress(store=f"s3://lake/arco{options}")) == settings


def test_clients_get_no_settings_of_other_stores() -> None:
    assert client_settings(WorkspaceAddress(root="/data/arco")) == {}
