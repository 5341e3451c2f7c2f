"""Runs over HTTP: submit, read, cancel, list, and read the logs of tasks."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec
import pytest

from arco.access.principal import Principal
from arco.access.token import LocalTokens
from arco.core.errors import Unavailable
from arco.core.runtime import system_runtime
from arco.core.scope import Scope
from arco.flow.coordinator.messages import AttemptOutcome, LeaseRequest, TaskStatus
from arco.flow.plan.plan import Plan
from arco.server.all_in_one import ServerSettings
from arco.server.embedded import EmbeddedServer, embedded_server
from arco.server.listener import Auth
from arco.server.workspace_address import WorkspaceAddress
from tests.flow.worker.scripted_executor import (
    DONE,
    PROJECT,
    ScriptedExecutor,
    ScriptedTask,
    plan,
    run_plan,
    submit_plan,
    until_true,
)
from tests.stores import store_url


@asynccontextmanager
async def arco(
    place: WorkspaceAddress | None = None, terms: ServerSettings | None = None
) -> AsyncIterator[tuple[EmbeddedServer, httpx2.AsyncClient]]:
    """An Arco and a client of it."""
    place = place or WorkspaceAddress(store="memory://")
    async with (
        embedded_server(place, system_runtime(), settings=terms) as server,
        httpx2.AsyncClient(base_url=f"{server.url}/api/v1", timeout=60, trust_env=False) as http,
    ):
        yield server, http


def wish(planned: Plan, run_key: str = "k", **also: object) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(planned)
    return {"run_key": run_key, "plan": body, **also}


def offer(**also: object) -> dict[str, object]:
    return {"worker": "w", "slots": 10, "project": PROJECT, **also}


def completion(task: dict[str, Any], status: str, **also: object) -> dict[str, object]:
    """How an attempt ended."""
    times = {"started_at_ms": 1, "completed_at_ms": 2}
    outcome = {"status": status, **also}
    return {"attempt_id": task["attempt_id"], "worker": "w", **times, "outcome": outcome}


async def test_a_run_from_its_request_to_its_end_in_plain_requests() -> None:
    async with arco() as (_, http):
        begun = await http.post("/runs", json=wish(plan("a", "b", b=["a"])))
        assert begun.status_code == 200
        run_id = begun.json()["run_id"]
        for key in ("a", "b"):
            [task] = (await http.post("/tasks/lease", json=offer(wait_ms=5_000))).json()["tasks"]
            assert task["key"] == key
            where = f"/tasks/{task['attempt_id']}"
            beat = {"attempt_id": task["attempt_id"], "worker": "w", "log": f"{key} works\n"}
            pulse = (await http.post(f"{where}/heartbeat", json=beat)).json()
            assert pulse["lease_until_ms"] > 0
            for _ in range(2):  # saying it twice is saying it once
                ended = await http.post(f"{where}/completed", json=completion(task, "SUCCESS"))
                assert (ended.status_code, ended.content) == (204, b"")
        over = (await http.post("/tasks/lease", json=offer(run_id=run_id, wait_ms=5_000))).json()
        assert over == {"is_over": True}
        view = (await http.get(f"/runs/{run_id}")).json()
        log = (await http.get(f"/runs/{run_id}/tasks/a/logs")).json()
        none = await http.get(f"/runs/{run_id}/tasks/a/logs", params={"attempt": 9})
    assert (none.status_code, "'a' has no attempt 9: it has had 1" in none.text) == (404, True)
    assert (view["status"], view["counts"]) == ("SUCCESS", {"SUCCESS": 2})
    assert (log["text"], log["attempt"], log["next"], log["is_over"]) == ("a works\n", 1, 1, True)


async def test_a_large_log_is_over_with_its_last_piece() -> None:
    async with arco() as (_, http):
        run_id = (await http.post("/runs", json=wish(plan("a")))).json()["run_id"]
        [task] = (await http.post("/tasks/lease", json=offer(wait_ms=5_000))).json()["tasks"]
        beat = {"attempt_id": task["attempt_id"], "worker": "w", "log": "x" * 99_999 + "\n"}
        for part in range(20):
            body = {**beat, "log_part": part}
            await http.post(f"/tasks/{task['attempt_id']}/heartbeat", json=body)
        await http.post(f"/tasks/{task['attempt_id']}/completed", json=completion(task, "SUCCESS"))
        where = f"/runs/{run_id}/tasks/a/logs"
        first = (await http.get(where)).json()
        last = (await http.get(where, params={"since": first["next"]})).json()
    assert (first["is_over"], last["is_over"], last["next"]) == (False, True, 20)
    assert first["text"] + last["text"] == 20 * beat["log"]


async def test_the_same_run_key_is_the_same_run_and_with_another_plan_it_is_refused() -> None:
    async with arco() as (_, http):
        first, second = [(await http.post("/runs", json=wish(plan("a")))).json() for _ in "12"]
        other = await http.post("/runs", json=wish(plan("b")))
    assert first["run_id"] == second["run_id"]
    assert (other.status_code, other.json()["code"]) == (400, "invalid")


async def test_a_plan_of_many_tasks_is_taken_as_it_is_and_compressed() -> None:
    planned = plan(*(f"task-{number:05d}" for number in range(10_000)))
    body = msgspec.json.encode(wish(planned))
    assert len(body) > 1024 * 1024  # more than a body may usually have
    headers = {"Content-Type": "application/json"}
    async with arco() as (_, http):
        plain = await http.post("/runs", content=body, headers=headers)
        packed = await http.post(
            "/runs", content=gzip.compress(body), headers={**headers, "Content-Encoding": "gzip"}
        )
    assert plain.json()["counts"] == packed.json()["counts"]
    assert plain.json()["run_id"] == packed.json()["run_id"]


@pytest.mark.parametrize("auth", [Auth.NONE, Auth.LOCAL])
async def test_a_run_is_triggered_by_the_principal_where_identities_are_required(
    tmp_path: Path, auth: Auth
) -> None:
    place, runtime = WorkspaceAddress(store=str(tmp_path)), system_runtime()
    (tmp_path / ".arco").mkdir()
    tokens = LocalTokens(place.signing_key(runtime.rng), runtime)
    longest = f"user:{'a' * 255}"
    headers = {
        name: {"Authorization": f"Bearer {tokens.mint(Principal(name, Scope()), life_s=600)}"}
        for name in ("user:ana", longest)
    }
    async with arco(place, ServerSettings(auth=auth)) as (_, http):
        for name, header in headers.items():
            body = wish(plan("a"), name[:10], triggered_by="user:boss")
            run = (await http.post("/runs", json=body, headers=header)).json()
            stop = {"by": "user:boss"}
            await http.post(f"/runs/{run['run_id']}/cancel", json=stop, headers=header)
        listed = (await http.get("/runs", headers=headers["user:ana"])).json()
    document = [each["triggered_by"] for each in listed["items"]]
    proven = auth is Auth.LOCAL
    assert document == ([longest[:255], "user:ana"] if proven else ["user:boss", "user:boss"])
    stored = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert (b"user:boss" in stored) is not proven


async def test_the_events_of_a_request_name_the_principal_that_sent_it(tmp_path: Path) -> None:
    place, runtime = WorkspaceAddress(store=str(tmp_path)), system_runtime()
    (tmp_path / ".arco").mkdir()
    tokens = LocalTokens(place.signing_key(runtime.rng), runtime)
    ana, ben, worker = [
        {"Authorization": f"Bearer {tokens.mint(Principal(name, Scope()), life_s=600)}"}
        for name in ("user:ana", "user:ben", "client:worker")
    ]
    async with arco(place, ServerSettings(auth=Auth.LOCAL)) as (_, http):
        run = (await http.post("/runs", json=wish(plan("a")), headers=ana)).json()["run_id"]
        lease = await http.post("/tasks/lease", json=offer(wait_ms=5_000), headers=worker)
        [task] = lease.json()["tasks"]
        where = f"/tasks/{task['attempt_id']}/completed"
        await http.post(where, json=completion(task, "FAILED"), headers=worker)
        await until_over(http, run, ana)
        retried = await http.post(f"/runs/{run}/retry", json={}, headers=ben)
        assert retried.status_code == 200, retried.text
        again = retried.json()["run_id"]
        await http.post(f"/runs/{again}/cancel", headers=ana)
        await until_over(http, again, ana)
    callers = {
        (event["payload"]["execution_id"] == again, event["event_type"]): event.get("caller")
        for event in stored_events(tmp_path)
    }
    started = ("execution_requested", "execution_planned", "execution_started")
    assert callers == {
        **{(False, name): "user:ana" for name in started},
        (False, "task_dispatched"): "client:worker",
        (False, "task_started"): "client:worker",
        (False, "task_completed"): "client:worker",
        (False, "execution_completed"): None,  # the coordinator itself
        **{(True, name): "user:ben" for name in started},
        (True, "cancel_requested"): "user:ana",
        (True, "task_cancelled"): None,
        (True, "execution_completed"): None,
    }


async def until_over(http: httpx2.AsyncClient, run_id: str, headers: dict[str, str]) -> None:
    """Return once the end of a run is recorded."""
    view: dict[str, Any] = {"number": 0}
    while "completed_at_ms" not in view:
        query = {"since": view["number"], "wait_ms": 5_000}
        view = (await http.get(f"/runs/{run_id}", params=query, headers=headers)).json()


def stored_events(root: Path) -> list[dict[str, Any]]:
    """The events of runs, out of the ledger."""
    segments = [path for path in root.rglob("*") if path.is_file() and "ledger" in path.parts]
    lines = b"".join(each.read_bytes() for each in segments).splitlines()
    events = [json.loads(line) for line in lines if line.startswith(b'{"event_id"')]
    return [each for each in events if "execution_id" in each["payload"]]


async def test_runs_and_tasks_are_listed_as_soon_as_they_are_acknowledged() -> None:
    def fail(_: ScriptedTask) -> AttemptOutcome:
        return AttemptOutcome(status=TaskStatus.FAILED, error="no luck")

    async with arco() as (server, http):
        runtime = system_runtime()
        first = await run_plan(server.coordinator, runtime, ScriptedExecutor(), plan("a"))
        second = await run_plan(
            server.coordinator, runtime, ScriptedExecutor(b=fail), plan("b", "c")
        )
        page = (await http.get("/runs", params={"page_size": 1})).json()
        token = {"page_size": 1, "page_token": page["next_page_token"]}
        rest = (await http.get("/runs", params=token)).json()
        failed = (await http.get("/runs", params={"status": "FAILED"})).json()
        tasks = (await http.get(f"/runs/{second.run_id}/tasks")).json()
        missing = await http.get("/runs/missing/tasks")
    actual = [each["run_id"] for each in page["items"] + rest["items"]]
    assert actual == [second.run_id, first.run_id]
    assert [each["run_id"] for each in failed["items"]] == [second.run_id]
    document = {each["task_id"]: (each["status"], each["error_message"]) for each in tasks["items"]}
    assert document == {"b": ("FAILED", "no luck"), "c": ("SUCCESS", None)}
    assert missing.status_code == 404


async def test_a_look_waits_for_the_next_change_of_a_run() -> None:
    async with arco() as (server, http):
        run_id = await submit_plan(server.coordinator, plan("a"))
        view = (await http.get(f"/runs/{run_id}")).json()
        asked = {"since": view["number"], "wait_ms": 20_000}
        looking = asyncio.create_task(http.get(f"/runs/{run_id}", params=asked))
        await asyncio.sleep(0.05)
        assert not looking.done()
        await http.post(f"/runs/{run_id}/cancel")
        changed = (await looking).json()
        for _ in range(20):
            if changed["status"] == "CANCELLED":
                break
            asked = {"since": changed["number"], "wait_ms": 1_000}
            changed = (await http.get(f"/runs/{run_id}", params=asked)).json()
    assert changed["status"] == "CANCELLED"


async def test_what_did_not_succeed_is_run_again_on_demand() -> None:
    def fail(_: ScriptedTask) -> AttemptOutcome:
        return AttemptOutcome(status=TaskStatus.FAILED)

    async with arco() as (server, http):
        runtime = system_runtime()
        old = await run_plan(server.coordinator, runtime, ScriptedExecutor(b=fail), plan("a", "b"))
        retry = (await http.post(f"/runs/{old.run_id}/retry", json={"worker": "w"})).json()
    assert retry["run_id"] != old.run_id
    assert sum(retry["counts"].values()) == 1


async def test_unknown_runs_and_attempts_are_404() -> None:
    async with arco() as (_, http):
        run_id = "01K0B3Q4N5RJ6Y7Z8A9BCDEFGH"
        actual = [
            await http.get(f"/runs/{run_id}"),
            await http.post(f"/runs/{run_id}/cancel"),
            await http.post(f"/runs/{run_id}/retry"),
            await http.get(f"/runs/{run_id}/tasks/a/logs"),
            await http.post("/tasks/x/heartbeat", json={"attempt_id": "x", "worker": "w"}),
            await http.post("/tasks/x/completed", json=completion({"attempt_id": "x"}, "SUCCESS")),
        ]
        other = await http.post("/tasks/y/heartbeat", json={"attempt_id": "x", "worker": "w"})
    assert [each.status_code for each in actual] == [404] * 6
    steps = {each.json()["next_step"] for each in actual[:4]}
    assert steps == {"Check its id; `arco runs` lists all runs."}
    assert other.status_code == 400


async def test_an_attempt_that_has_lost_its_lease_is_fenced() -> None:
    async with arco() as (server, http):
        run_id = await submit_plan(server.coordinator, plan("a"))
        [task] = (await http.post("/tasks/lease", json=offer(run_id=run_id))).json()["tasks"]
        where = f"/tasks/{task['attempt_id']}"
        other = {"attempt_id": task["attempt_id"], "worker": "v"}
        lost = await http.post(f"{where}/heartbeat", json=other)
        late = await http.post(f"{where}/completed", json={**completion(task, "FAILED"), **other})
        mine = await http.post(f"{where}/completed", json=completion(task, "SUCCESS"))
    assert lost.json()["is_lost"]
    assert (late.status_code, late.json()["code"]) == (409, "attempt_fenced")
    assert mine.status_code == 204


async def test_a_worker_learns_at_once_which_attempts_are_to_stop() -> None:
    async with arco() as (server, http):
        run_id = await submit_plan(server.coordinator, plan("a", "b"))
        tasks = (await http.post("/tasks/lease", json=offer())).json()["tasks"]
        ids = [task["attempt_id"] for task in tasks]
        asked = {"worker": "w", "attempt_ids": ids, "wait_ms": 20_000}
        watching = asyncio.create_task(http.post("/tasks/watch", json=asked))
        await asyncio.sleep(0.05)
        assert not watching.done()
        await http.post(f"/runs/{run_id}/cancel", json={"by": "user:ada"})
        stopped = (await watching).json()
    assert sorted(stopped["attempt_ids"]) == sorted(ids)


async def test_a_call_that_waits_takes_nobodys_place_and_ends_when_its_caller_leaves() -> None:
    async with arco() as (server, http):
        metrics = httpx2.AsyncClient(base_url=server.url, trust_env=False)
        asked = http.post("/tasks/lease", json=offer(wait_ms=30_000))
        waiting = asyncio.create_task(asked)
        await until_true(lambda: _worker_waits(server))
        in_flight = _figure((await metrics.get("/metrics")).text, "arco_http_requests_in_flight")
        waiting.cancel()
        await until_true(lambda: not _worker_waits(server))
        run_id = await submit_plan(server.coordinator, plan("a"))
        leased = await server.coordinator.lease(
            LeaseRequest(worker="v", slots=1, project=PROJECT, run_id=run_id)
        )
        await metrics.aclose()
    assert in_flight == 1  # the one that asked
    assert [task.key for task in leased.tasks] == [
        "a"
    ]  # it was not leased to a worker that has disconnected


async def test_keys_of_tasks_may_hold_slashes() -> None:
    key = "silver.orders@ds=2026-01-10/region=eu"
    planned = msgspec.to_builtins(plan("a"))
    planned["tasks"][0]["key"] = key

    def speak(doing: ScriptedTask) -> AttemptOutcome:
        doing.watch.log("it works")
        return DONE

    async with arco() as (server, http):
        run = await run_plan(
            server.coordinator,
            system_runtime(),
            ScriptedExecutor(a=speak),
            msgspec.convert(planned, Plan),
        )
        log = await http.get(f"/runs/{run.run_id}/tasks/{quote(key, safe='')}/logs")
    assert log.json()["text"] == "it works\n"


async def test_metrics_show_how_tasks_have_ended() -> None:
    def fail(_: ScriptedTask) -> AttemptOutcome:
        return AttemptOutcome(status=TaskStatus.FAILED)

    async with arco() as (server, http):
        await run_plan(
            server.coordinator, system_runtime(), ScriptedExecutor(b=fail), plan("a", "b", "c")
        )
        text = (await http.get(f"{server.url}/metrics")).text
    assert _figure(text, 'arco_flow_tasks_total{status="SUCCESS"}') == 2
    assert _figure(text, 'arco_flow_tasks_total{status="FAILED"}') == 1
    assert _figure(text, "arco_flow_attempts_at_work") == 0
    assert _figure(text, "arco_flow_leases_expired_total") == 0


async def test_values_of_a_dynamic_dimension_are_added_and_removed() -> None:
    async with arco() as (server, http):
        for change in (
            {"dimension": "customer", "values": ["zeta", "acme", "acme"]},
            {"dimension": "customer", "values": ["zeta"], "remove": True},
        ):
            await asyncio.sleep(0.002)  # the later one counts
            document = await http.post("/partition-values", json=change)
            assert document.status_code == 200
        state = (await http.post("/flow/state", json={"tables": ["default.a.b"]})).json()
        wrong = await http.post("/partition-values", json={"dimension": "d", "values": [""]})
        unknown = await http.post("/flow/state", json={"tables": ["default..b"]})
        assert (await server.coordinator.state([])).dynamic == {"customer": ("acme",)}
    assert state["dynamic"] == {"customer": ["acme"]}
    assert state["tables"]["default.a.b"]["table_id"] is None
    assert (wrong.status_code, unknown.status_code) == (400, 400)


def _worker_waits(server: EmbeddedServer) -> bool:
    """Whether a worker of the coordinator waits for tasks."""
    return bool(server.coordinator._state._waiting)  # type: ignore[attr-defined]


def _figure(text: str, name: str) -> float:
    [line] = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(line.rpartition(" ")[2])


@pytest.mark.parametrize("kind", ["local", "moto"])
async def test_a_workspace_has_one_coordinator(
    kind: str, request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str]
) -> None:
    url, runtime = store_url(kind, request), system_runtime()
    place = (
        WorkspaceAddress(store=url) if kind == "moto" else WorkspaceAddress(root=url, no_fsync=True)
    )
    async with embedded_server(place, runtime):
        with pytest.raises(
            Unavailable, match=r"another Arco \(.*\d+\) coordinates the runs"
        ) as refused:
            async with embedded_server(place, runtime):
                pass
        assert "--url" in refused.value.__notes__[0]
        assert "book" not in capfd.readouterr().err  # the command reports it, and it is not logged
    async with embedded_server(place, runtime) as server:  # the first has let go
        assert (await server.coordinator.state([])).number == -1


async def test_a_run_that_only_events_describe_is_shown() -> None:
    def event(name: str, **payload: object) -> dict[str, object]:
        head = {"event_type": name, "event_version": 1, "source": {"type": "airflow"}}
        return {**head, "occurred_at": "2026-05-01T10:00:00Z", "payload": payload}

    of, at = {"task_id": "load", "execution_id": "etl-1"}, "2026-05-01T10:00:00Z"
    task = {**of, "attempt": 1, "status": "FAILED", "output_tables": ["t1"], "completed_at": at}
    check = {**of, "table_id": "t1", "check_name": "some", "check_type": "ROW_COUNT"}
    async with arco() as (_, http):
        document = [
            event("execution_started", execution_id="etl-1", pipeline_id="etl"),
            event("quality_check_failed", **check, message="no rows", checked_at=at),
            event("task_completed", **task),
        ]
        assert (await http.post("/events", json=document)).status_code == 200
        view = (await http.get("/runs/etl-1")).json()
    assert (view["status"], view["counts"]) == ("RUNNING", {"FAILED": 1})
    assert [(each["key"], each["attempt"]) for each in view["changed"]] == [("load", 1)]
    (actual,) = view["changed"][0]["checks"]
    assert (actual["name"], actual["passed"], actual["message"]) == ("some", False, "no rows")
