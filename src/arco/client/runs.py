"""Runs of pipelines, executions that events report, and the state that planning needs."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from arco.client.models import (
    ExecutionInfo,
    ExecutionTaskInfo,
    RunInfo,
    TaskInfo,
    TaskLogChunk,
    decode,
)
from arco.client.objects import freshness, items
from arco.client.transport import Transport, path
from arco.core import json
from arco.core.errors import Invalid, NotFound
from arco.core.ids import new_ulid
from arco.core.runtime import system_runtime

if TYPE_CHECKING:
    from arco.flow.coordinator.messages import RunView
    from arco.flow.plan.plan import Plan
    from arco.flow.plan.table_state import PlanningState

LAST = "last"

_ID_CHARS = 26
_MAX_RUNS = 10_000  # newest runs that a part of an id is looked up in
_SHOWN = 5
_POLL_MS = 1_000


class RunsApi:
    """Runs of pipelines."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, status: str | None = None) -> Iterator[RunInfo]:
        """Runs, the latest first. `status` is PENDING, RUNNING, SUCCESS, FAILED or CANCELLED."""
        return items(self._transport, "/runs", RunInfo, {"status": status})

    def get(self, run_id: str, *, since: int = 0, wait_ms: int = 0) -> "RunView":
        """A run with the tasks that changed since its `number` was `since`; all of them by default.

        With `wait_ms` the server answers as soon as something changes, at the latest after that time.
        """
        params = {"since": str(since), "wait_ms": str(wait_ms)} if since or wait_ms else {}
        return _view(self._transport.get(path("runs", run_id), params))

    def submit(
        self,
        plan: "Plan",
        *,
        run_key: str | None = None,
        worker: str = "",
        triggered_by: str | None = None,
        params: Mapping[str, str] | None = None,
    ) -> "RunView":
        """Start a run of a plan. The same `run_key` again is the same run; without one, a new run is made.

        With `worker` only that worker gets its tasks.
        """
        from arco.flow.coordinator.messages import RunRequest

        request = RunRequest(
            run_key=run_key or f"client:{new_ulid(system_runtime())}",
            plan=plan,
            worker=worker,
            triggered_by=triggered_by,
            params=dict(params or {}),
        )
        return _view(self._transport.change("POST", "/runs", request))

    def cancel(self, run_id: str, *, by: str | None = None) -> "RunView":
        """Stop a run for good; what is published stays published."""
        body = {} if by is None else {"by": by}
        return _view(self._transport.change("POST", path("runs", run_id, "cancel"), body))

    def retry(self, run_id: str, *, worker: str = "", plan: "Plan | None" = None) -> "RunView":
        """A new run of what a run has not done, with its plan or a new one of the present code."""
        body = {"worker": worker, "plan": plan}
        return _view(self._transport.change("POST", path("runs", run_id, "retry"), body))

    def tasks(self, run_id: str) -> Iterator[TaskInfo]:
        """The tasks of a run, each at its newest attempt."""
        return items(self._transport, path("runs", run_id, "tasks"), TaskInfo)

    def logs(
        self, run_id: str, task: str, *, attempt: int | None = None, follow: bool = False
    ) -> Iterator[TaskLogChunk]:
        """The log of an attempt at a task, in chunks; `follow` waits until the attempt is over."""
        where, since = path("runs", run_id, "tasks", task, "logs"), 0
        number = None if attempt is None else str(attempt)
        while True:
            raw = self._transport.get(where, {"attempt": number, "since": str(since)})
            chunk = decode(raw, TaskLogChunk)
            yield chunk
            number = str(chunk.attempt)  # another attempt may begin meanwhile
            has_more, since = chunk.next > since, chunk.next
            if chunk.is_over or not (has_more or follow):
                return
            if not has_more:
                self._transport.pause(_POLL_MS)

    def find(self, text: str) -> str:
        """The id of the run that is meant by an id, by its beginning or end, or by `last`.

        A text that fits no run is returned as it is, so that the server answers for it.
        """
        if len(text) == _ID_CHARS:
            return text
        runs = islice((run.run_id for run in self.list()), _MAX_RUNS)
        if text == LAST:
            newest = next(runs, None)
            if newest is None:
                raise NotFound("there is no last run: there are no runs yet; `arco run` starts one")
            return newest
        ids, part = tuple(runs), text.casefold()
        fit = [each for each in ids if each.casefold().startswith(part)]
        fit += [each for each in ids if each.casefold().endswith(part) and each not in fit]
        if text in ids or not (text and fit):
            return text
        if len(fit) > 1:
            more = f" and {len(fit) - _SHOWN:,} more" if len(fit) > _SHOWN else ""
            raise Invalid(
                f"the run id {text!r} is ambiguous: it fits {', '.join(fit[:_SHOWN])}{more}. Give more "
                "of it."
            )
        return fit[0]


class ExecutionsApi:
    """Runs of any pipeline that sends events, also of other orchestrators."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(
        self, pipeline_id: str, *, status: str | None = None, fresh: bool = False
    ) -> Iterator[ExecutionInfo]:
        """The executions of a pipeline, the latest first."""
        params = {"status": status, "freshness": freshness(fresh)}
        where = path("pipelines", pipeline_id, "runs")
        return items(self._transport, where, ExecutionInfo, params)

    def get(self, execution_id: str, *, fresh: bool = False) -> ExecutionInfo:
        """An execution, with its tasks counted by status."""
        params = {"freshness": freshness(fresh)}
        return decode(self._transport.get(path("executions", execution_id), params), ExecutionInfo)

    def tasks(self, execution_id: str, *, fresh: bool = False) -> Iterator[ExecutionTaskInfo]:
        """The tasks of an execution, each at its newest attempt."""
        where = path("executions", execution_id, "tasks")
        return items(self._transport, where, ExecutionTaskInfo, {"freshness": freshness(fresh)})


class FlowApi:
    """What planning reads and changes: the state of tables, and the values of dynamic dimensions."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def state(self, tables: Sequence[str], files_of: Sequence[str] = ()) -> "PlanningState":
        """The partitions of tables, by their full names, with the files of some that no pipeline added."""
        from arco.flow.plan.table_state import PlanningState

        raw = self._transport.post("/flow/state", state_request(tables, files_of))
        return json.decode(raw, PlanningState)

    def add_partition_values(self, dimension: str, values: Sequence[str]) -> None:
        """Add values to a dynamic dimension: each is a partition from now on."""
        self._change_values(dimension, values, remove=False)

    def remove_partition_values(self, dimension: str, values: Sequence[str]) -> None:
        """Remove values of a dynamic dimension. Data of their partitions stay."""
        self._change_values(dimension, values, remove=True)

    def _change_values(self, dimension: str, values: Sequence[str], *, remove: bool) -> None:
        body = {"dimension": dimension, "values": values, "remove": remove}
        self._transport.change("POST", "/partition-values", body)


def state_request(tables: Sequence[str], files_of: Sequence[str]) -> dict[str, object]:
    """The body of a request for the state; an older server does not know `files_of`."""
    return {"tables": tables, **({"files_of": files_of} if files_of else {})}


def _view(raw: bytes) -> "RunView":
    from arco.flow.coordinator.messages import RunView

    return json.decode(raw, RunView)
