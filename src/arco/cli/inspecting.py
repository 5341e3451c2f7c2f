"""What an inspection has found, for the people and programs that look after a store."""

from collections.abc import Callable, Iterator

from arco.api.http.telemetry import Log
from arco.api.metrics import Metrics
from arco.cli.finding import Finding, Status, failed, ok
from arco.compactor.inspection import Inspection


def reporter(log: Log, metrics: Metrics) -> Callable[[Inspection], None]:
    """Tells what an inspection beside the requests has found: log lines, and gauges."""

    def report(found: Inspection) -> None:
        metrics.care.inspected(
            found.domain,
            troubles=len(found.troubles),
            waiting=found.waiting,
            lag_ms=found.lag_ms,
            orphans=found.orphans.objects,
        )
        for stream in found.sealed:
            log.info("a stream past its end was sealed", domain=found.domain, stream=stream)
        for hint in found.hints:
            log.info("a hint was written anew", domain=found.domain, object=hint)
        for each in found.troubles:
            log.error(
                "something is wrong in the store",
                domain=found.domain,
                kind=str(each.kind),
                object=each.path,
                detail=each.explanation,
            )

    return report


def findings_of(found: Inspection) -> Iterator[Finding]:
    """The lines of `arco doctor` about one domain."""
    lag_ms = found.lag_ms or 0
    yield ok(
        found.domain,
        _figure(found),
        head=found.head,
        segments=found.segments,
        open_streams=found.streams,
        waiting_segments=found.waiting,
        waiting_bytes=found.waiting_bytes,
        lag_ms=lag_ms,
        files=found.files,
        orphan_files=found.orphans.objects,
        orphan_bytes=found.orphans.bytes,
        troubles=len(found.troubles),
    )
    if found.orphans.objects:
        figure = f"{found.orphans.objects} files that nobody names, {found.orphans.bytes:,} bytes"
        yield Finding(found.domain, Status.NOTE, figure, "`arco gc` deletes them.")
    if found.sealed:
        yield Finding(
            found.domain, Status.NOTE, f"{len(found.sealed)} streams past their end sealed"
        )
    for hint in found.hints:
        yield Finding(found.domain, Status.NOTE, f"{hint} written anew: it was far behind or lost")
    for each in found.troubles:
        yield failed(found.domain, f"{each.path}: {each.explanation}", each.next_step)


def _figure(found: Inspection) -> str:
    if found.head < 0 and not found.segments:
        return "nothing yet"
    words = [f"version {found.head}" if found.head >= 0 else "nothing published"]
    words += [f"{found.files} files", f"{found.segments} segments", f"{found.streams} open streams"]
    if found.waiting:
        words.append(f"{found.waiting} segments wait since {_span(found.lag_ms or 0)}")
    return ", ".join(words)


def _span(ms: float) -> str:
    return f"{ms / 1000:.0f} s" if ms < 120_000 else f"{ms / 60_000:.0f} min"
