"""`arco up` as a process: how it begins, whom it lets in, how it ends, and what it keeps."""

import re
import signal
from pathlib import Path

import httpx2
import pytest

from arco.core.runtime import Runtime
from tests.cli.command import arco, is_one_sentence
from tests.processes.audit import audit, direct_reader
from tests.processes.deployment import all_in_one, place_of
from tests.processes.journal import Journal, Outcome
from tests.processes.load_run import changes, under_load
from tests.processes.server import Server, eventually, free_port, running

CATALOG = "/api/v1/catalogs/default"


def up(root: Path, *flags: str) -> Server:
    return Server(["up", "--root", str(root), *flags], log=root.parent / f"{root.name}.log")


async def test_a_stop_under_load_is_clean_and_loses_nothing(
    tmp_path: Path, runtime: Runtime
) -> None:
    url = str(tmp_path / "store")
    deployment = all_in_one(place_of(url), tmp_path)
    (server,) = deployment.servers

    async def restart_twice(journal: Journal) -> None:
        for _ in range(2):
            await changes(10)(journal)
            server.send(signal.SIGTERM)
            assert await server.exit_code(within_s=30) == 0
            await server.start()
        await changes(10)(journal)

    async with deployment.up():
        journal = await under_load(deployment, restart_twice, seed=1)
        assert await audit(deployment, direct_reader(url, runtime), journal) == []
    assert len(journal.with_outcome(Outcome.DONE)) >= 20


async def test_two_on_one_root_share_the_work_without_losing_or_doubling_any(
    tmp_path: Path, runtime: Runtime
) -> None:
    url = str(tmp_path / "store")
    deployment = all_in_one(place_of(url), tmp_path, count=2)
    async with deployment.up():
        journal = await under_load(deployment, changes(60), seed=2)
        assert await audit(deployment, direct_reader(url, runtime), journal) == []
    assert journal.with_outcome(Outcome.UNKNOWN) == []


async def test_a_kill_takes_the_sql_engine_with_it(tmp_path: Path) -> None:
    server = up(tmp_path / "store")
    async with running(server):
        async with httpx2.AsyncClient(base_url=server.url, trust_env=False, timeout=30) as http:
            answer = await http.post("/api/v1/query", json={"sql": "SELECT 1 AS one"})
            assert answer.json()["rows"] == [[1]]
        children = _children(server.pid)
        assert children  # else this shows nothing
        server.kill()

        async def look() -> bool:
            return not any(_lives(child) for child in children)

        await eventually(look)


async def test_with_local_identity_only_a_token_of_this_installation_opens(tmp_path: Path) -> None:
    ours, others = tmp_path / "ours", tmp_path / "others"
    (others / ".arco").mkdir(parents=True)
    server = up(ours, "--auth", "local")
    async with running(server), httpx2.AsyncClient(base_url=server.url, trust_env=False) as http:
        assert (await http.get(CATALOG)).status_code == 401
        assert (await http.get(CATALOG, headers=_bearer(others))).status_code == 401
        assert (await http.get(CATALOG, headers=_bearer(ours))).status_code == 200
        made = await http.post(
            f"{CATALOG}/schemas", json={"name": "s"}, headers=_bearer(ours, "user:ana")
        )
        assert made.json()["created_by"] == "user:ana"
        assert (await http.get("/health/ready")).status_code == 200


def _bearer(root: Path, principal: str = "client:test") -> dict[str, str]:
    run = arco("token", "mint", principal, "--root", root)
    assert run.returncode == 0, run.stderr
    return {"Authorization": f"Bearer {run.stdout.strip()}"}


def test_without_identity_it_does_not_listen_to_strangers(tmp_path: Path) -> None:
    port = str(free_port())
    run = arco("up", "--root", tmp_path / "store", "--host", "0.0.0.0", "--port", port)
    assert run.returncode == 2
    assert run.stdout == ""
    assert is_one_sentence(run.stderr), run.stderr
    assert not (tmp_path / "store").exists()


async def test_a_port_that_is_taken_is_reported_in_one_sentence(tmp_path: Path) -> None:
    server = up(tmp_path / "store")
    async with running(server):
        run = arco("up", "--root", tmp_path / "other", "--port", str(server.port))
    assert run.returncode == 1
    assert run.stdout == ""
    assert is_one_sentence(run.stderr), run.stderr
    assert str(server.port) in run.stderr


@pytest.mark.parametrize("kind", ["file", "below a file", "not writable"])
@pytest.mark.parametrize("command", ["up", "compactor"])
def test_a_root_that_cannot_be_one_is_said_in_one_sentence(
    tmp_path: Path, kind: str, command: str
) -> None:
    file = tmp_path / "file"
    file.write_text("no directory")
    # Where not even root may write.
    root = {"file": file, "below a file": file / "store", "not writable": Path("/proc/arco")}[kind]
    run = arco(command, "--root", root, "--port", str(free_port()), ARCO_SERVICE_TOKEN="secret")
    assert run.returncode in {1, 2}
    assert run.stdout == ""
    assert is_one_sentence(run.stderr), run.stderr
    assert file.read_text() == "no directory"


def _children(pid: int) -> list[int]:
    children = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            parent = re.search(r"^PPid:\s+(\d+)$", status.read_text(), re.MULTILINE)
        except OSError:
            continue  # it has ended meanwhile
        if parent is not None and int(parent[1]) == pid:
            children.append(int(status.parent.name))
    return children


def _lives(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return "State:\tZ" not in status


async def test_the_admin_port_answers_probes_and_only_a_named_one_has_to_be_free(
    tmp_path: Path,
) -> None:
    admin = str(free_port())
    first = up(tmp_path / "first", "--admin-port", admin)
    async with running(first):
        async with httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{admin}", trust_env=False
        ) as http:
            for path in ("/health/live", "/health/ready", "/health", "/metrics"):
                assert (await http.get(path)).status_code == 200
            assert (await http.get(CATALOG)).status_code == 404
        refused = arco("up", "--root", tmp_path / "second", "--port", "0", "--admin-port", admin)
        assert refused.returncode == 1
        assert is_one_sentence(refused.stderr), refused.stderr
        assert f"port {admin} of 127.0.0.1" in refused.stderr
        assert "--admin-port" in refused.stderr


async def test_several_servers_on_one_machine_share_the_default_admin_port_without_trouble(
    tmp_path: Path,
) -> None:
    servers = [up(tmp_path / name) for name in ("one", "two")]
    async with running(*servers):
        for server in servers:
            async with httpx2.AsyncClient(base_url=server.url, trust_env=False) as http:
                assert (await http.get("/health/ready")).status_code == 200
    logs = [(tmp_path / f"{name}.log").read_text() for name in ("one", "two")]
    assert any("the default admin port is taken" in each for each in logs)
