"""A span for each attempt, with the spans of its task as children."""

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from arco.core.runtime import system_runtime
from arco.flow.coordinator.messages import AttemptOutcome, TaskStatus
from arco.flow.coordinator.run_state import attempt_id_of
from arco.flow.worker.attempt import AttemptTracing
from tests.flow.worker.scripted_executor import (
    DONE,
    ScriptedExecutor,
    ScriptedTask,
    new_worker,
    open_coordinator,
    plan,
    submit_plan,
)


def _of(spans: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {
        str((each.attributes or {}).get("arco.task")): each for each in spans.get_finished_spans()
    }


async def test_each_attempt_has_a_span_with_its_run_its_task_and_its_end() -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    seen: list[trace.Span] = []

    def look(_: ScriptedTask) -> AttemptOutcome:
        seen.append(trace.get_current_span())
        return DONE

    def fail(_: ScriptedTask) -> AttemptOutcome:
        return AttemptOutcome(status=TaskStatus.FAILED, error="the secret is 42")

    runtime = system_runtime()
    async with open_coordinator("here", runtime) as coordinator:
        run_id = await submit_plan(coordinator, plan("good", "bad"))
        executor = ScriptedExecutor(good=look, bad=fail)
        tracing = AttemptTracing(provider)
        worker = new_worker(coordinator, executor, runtime, slots=2, tracing=tracing)
        await worker.run(run_id)
    spans_by_task = _of(spans)
    good, bad = spans_by_task["good"], spans_by_task["bad"]
    assert good.attributes == {
        "arco.run_id": run_id,
        "arco.task": "good",
        "arco.attempt": 1,
        "arco.attempt_id": attempt_id_of(run_id, "good", 1),
        "arco.worker": "w",
        "arco.status": "SUCCESS",
    }
    assert good.name == "task good"
    assert seen[0].get_span_context() == good.get_span_context()
    assert bad.status.status_code is StatusCode.ERROR
    assert "secret" not in bad.to_json()
