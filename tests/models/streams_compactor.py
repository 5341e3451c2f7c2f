"""The compactor, which probes, folds and publishes, and the janitor, which seals and collects.

One compactor stands for many: a publish is a create of the next manifest, so of all that started
from one manifest only the first can change anything, and the others begin again.
"""

from collections.abc import Iterator

from tests.models.rules import StreamRules
from tests.models.streams_store import ABSENT, CLOSED, SEAL, Ledger, Manifest, collect, create, put


def compactor(rules: StreamRules, ledger: Ledger) -> Iterator[tuple[str, Ledger]]:
    view = ledger.view or ledger.manifest
    for stream in range(ledger.opened):
        if view.marks[stream] == CLOSED:
            continue
        folded = _fold(ledger, view, stream)
        if folded != view:
            yield f"compactor folds stream {stream}", ledger._replace(view=folded)
        elif not rules.ended_by_seal:
            ended = Manifest(put(view.marks, stream, CLOSED), view.rows)
            yield f"compactor ends stream {stream} by its clock", ledger._replace(view=ended)
    if ledger.view is not None:
        yield "compactor crashes", ledger._replace(view=None)
        yield _publish(rules, ledger, ledger.view)


def _fold(ledger: Ledger, view: Manifest, stream: int) -> Manifest:
    """To the end of the stream; to have stopped before is to have looked earlier."""
    marks, rows = view
    for number in range(marks[stream] + 1, len(ledger.segments[stream])):
        content = ledger.segments[stream][number]
        if content == ABSENT:
            break
        if content == SEAL:
            return Manifest(put(marks, stream, CLOSED), rows)
        event = int(content[1:])
        marks, rows = put(marks, stream, number), put(rows, event, rows[event] + 1)
    return Manifest(marks, rows)


def _publish(rules: StreamRules, ledger: Ledger, view: Manifest) -> tuple[str, Ledger]:
    rows_out = view.rows == ledger.manifest.rows
    if rules.watermark_with_rows or rows_out:
        return "compactor publishes", ledger._replace(manifest=view, view=None)
    rows_only = Manifest(ledger.manifest.marks, view.rows)
    return "compactor publishes its rows", ledger._replace(manifest=rows_only)


def janitor(rules: StreamRules, ledger: Ledger) -> Iterator[tuple[str, Ledger]]:
    if rules.ended_by_seal:
        yield from _seal(ledger)
    for stream, mark in enumerate(ledger.manifest.marks):
        for number, content in enumerate(ledger.segments[stream][: mark + 1]):
            if content and (content != SEAL or not rules.seal_kept):
                yield f"janitor collects {stream}/{number}", collect(ledger, stream, number)


def _seal(ledger: Ledger) -> Iterator[tuple[str, Ledger]]:
    """Past the end of life by the janitor's clock, which may be any moment by the writer's."""
    if ledger.aim is None:
        for stream in range(ledger.opened):
            if (mark := ledger.manifest.marks[stream]) != CLOSED:
                aim = (stream, mark + 1)
                yield f"janitor aims at {stream}/{mark + 1}", ledger._replace(aim=aim)
        return
    stream, number = ledger.aim
    content = ledger.segments[stream][number]
    if content == SEAL:
        yield f"janitor finds {stream} sealed", ledger._replace(aim=None)
    elif content:
        yield f"janitor finds {stream}/{number}", ledger._replace(aim=(stream, number + 1))
    else:
        sealed = create(ledger, stream, number, SEAL)
        yield f"janitor seals {stream} at {number}", sealed._replace(aim=None)
