"""One process at a time coordinates the runs of a store; others can read them."""

import errno
import json
import os
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from arco.core.errors import ArcoError, Denied, StoreFull, Unavailable
from arco.core.runtime import Runtime
from arco.server.coordinator_lock import FileLock
from arco.server.embedded import EmbeddedServer, embedded_server
from arco.server.workspace_address import WorkspaceAddress
from tests.cli.command import arco
from tests.cli.flow.slow_run import stuck
from tests.cli.serving import serving
from tests.flow.worker.scripted_executor import disk_place, plan


def lock(folder: Path, runtime: Runtime) -> FileLock:
    file, lost = folder / ".arco" / "runs.lock", runtime.tasks.event()
    return FileLock(file, "file:///lake", lost, f"process {os.getpid()}")


@pytest.mark.parametrize(
    ("number", "kind", "message"),
    [
        (errno.EROFS, Denied, "file:///lake cannot be written: read-only file system"),
        (errno.EACCES, Denied, "file:///lake cannot be written: permission denied"),
        (errno.ENOSPC, StoreFull, "file:///lake cannot be written: no space left on device"),
        (errno.EIO, Unavailable, "file:///lake cannot be written: input/output error"),
    ],
)
async def test_a_directory_that_cannot_be_written_is_reported_with_the_reason(
    number: int,
    kind: type[ArcoError],
    message: str,
    tmp_path: Path,
    runtime: Runtime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(kind) as raised:
        await lock(tmp_path, runtime).take()
    assert (type(raised.value), str(raised.value)) == (kind, message)


async def test_on_a_full_disk_the_lock_holds_without_the_name_of_its_holder(
    tmp_path: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    held = lock(tmp_path, runtime)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        await held.take()
    with pytest.raises(Unavailable, match="another Arco coordinates the runs"):
        await lock(tmp_path, runtime).take()
    await held.release()
    await lock(tmp_path, runtime).take()


def test_a_second_run_on_the_same_store_is_refused_with_the_holder_and_advice(
    tmp_path: Path,
) -> None:
    with stuck(tmp_path) as running:
        second = arco("run", "--root", "place", cwd=tmp_path)
        assert second.returncode == 1
        assert f"another Arco (process {running.pid}) coordinates the runs" in second.stderr
        assert (
            "Wait for its end, or stop it; if it is an `arco up`, give its --url" in second.stderr
        )


def test_commands_that_only_read_work_beside_a_run_on_the_same_store(tmp_path: Path) -> None:
    def looked(*arguments: str) -> Any:
        result = arco(*arguments, "--root", "place", "--json", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    with stuck(tmp_path) as running:
        [listed] = looked("runs")["items"]
        run_id = listed["run_id"]
        shown = looked("runs", run_id)
        assert (listed["status"], shown["status"]) == ("RUNNING", "RUNNING")
        assert [(each["key"], each["status"]) for each in shown["changed"]] == [("slow", "RUNNING")]
        assert looked("logs", run_id, "slow")["is_over"] is False
        assert [each["key"] for each in looked("plan")["tasks"]] == ["slow"]
        refused = arco("cancel", run_id, "--root", "place", cwd=tmp_path)
        assert refused.returncode == 1
        assert f"another Arco (process {running.pid}) coordinates the runs" in refused.stderr
        assert running.poll() is None


def test_a_second_server_names_the_other_and_takes_over_after_it(tmp_path: Path) -> None:
    body = {"run_key": "k", "plan": msgspec.to_builtins(plan("a"))}
    with ExitStack() as servers:
        with serving(tmp_path / "place"):
            url = servers.enter_context(serving(tmp_path / "place")).url
            http = servers.enter_context(
                httpx2.Client(base_url=f"{url}/api/v1", timeout=60, trust_env=False)
            )
            refused = http.post("/runs", json=body)
            problem = refused.json()
            assert (refused.status_code, problem["code"]) == (503, "unavailable")
            assert "another server" in problem["detail"]
            assert "send the request to that server, or stop it" in problem["detail"]
            assert "takes over" in problem["next_step"]
            assert str(tmp_path) not in refused.text
        deadline = time.monotonic() + 20
        while http.post("/runs", json=body).status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.parametrize("beside", [False, True])
async def test_a_server_that_only_reads_does_not_hold_the_lock(
    beside: bool, tmp_path: Path, runtime: Runtime
) -> None:
    place = disk_place(tmp_path)
    async with AsyncExitStack() as looking:
        async with AsyncExitStack() as before:
            if beside:
                await before.enter_async_context(embedded_server(place, runtime))
            await looking.enter_async_context(
                embedded_server(place, runtime, needs_coordinator=False)
            )
        for _ in range(2):
            async with embedded_server(place, runtime) as server:
                assert server.url.startswith("http://")


def _state(
    looking: EmbeddedServer, run_id: str
) -> Callable[[], Coroutine[Any, Any, tuple[str, str | None]]]:
    async def ask() -> tuple[str, str | None]:
        view = await looking.coordinator.get_run(run_id)
        return view.status.value, view.error

    return ask


async def test_a_reader_sees_the_end_of_a_run_that_was_killed_before_or_meanwhile(
    tmp_path: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arco.server.coordinator._DEAD_RUN_CHECK_MS", 200)
    place, failed_state = (
        WorkspaceAddress(root=str(tmp_path / "place")),
        ("FAILED", "its worker stopped reporting"),
    )
    async with AsyncExitStack() as all_along:
        with stuck(tmp_path) as running:
            looking = await all_along.enter_async_context(
                embedded_server(place, runtime, needs_coordinator=False)
            )
            [listed] = json.loads(arco("runs", "--root", str(tmp_path / "place"), "--json").stdout)[
                "items"
            ]
            state = _state(looking, listed["run_id"])
            assert await state() == ("RUNNING", None)
            running.kill()
            running.wait()
        async with embedded_server(place, runtime, needs_coordinator=False) as after:
            assert await _state(after, listed["run_id"])() == failed_state
        ends_ms = runtime.clock.elapsed_ms() + 20_000
        while await state() != failed_state:
            assert runtime.clock.elapsed_ms() < ends_ms
            await runtime.clock.sleep(50)
        async with embedded_server(place, runtime):  # both have let go of it
            pass


async def test_a_lock_that_is_held_briefly_is_waited_for(tmp_path: Path, runtime: Runtime) -> None:
    place = disk_place(tmp_path)
    async with embedded_server(place, runtime):
        [file] = Path(str(place.root)).glob(".arco/runs-*.lock")
    held = FileLock(file, "here", runtime.tasks.event(), "process 1, for a moment")
    await held.take()

    async def let_go() -> None:
        await runtime.clock.sleep(500)
        await held.release()

    letting_go = runtime.tasks.spawn(let_go())
    async with embedded_server(place, runtime):
        assert letting_go.done()
    await letting_go.wait()
