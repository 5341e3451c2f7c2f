"""Law 7: any order, duplication and batching of the same lines gives the same rows."""

import random
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arco.events.read import SegmentRows, read_segment
from arco.events.registry import DOMAINS, kinds_by_name
from arco.fold.fold import fold
from arco.fold.table import MergeStrategy
from arco.fold.tier2 import TIER2
from arco.ledger.segment import Segment
from tests.events.payloads import MOMENTS, payloads
from tests.events.stored_lines import STREAM, line


class History(NamedTuple):
    domain: str
    lines: list[bytes]


@st.composite
def histories(draw: st.DrawFn) -> History:
    domain = draw(st.sampled_from(DOMAINS))
    kinds = sorted(kinds_by_name(domain).values(), key=lambda kind: kind.name)
    lines = []
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(kinds))
        lines.append(
            line(
                kind.name,
                draw(payloads(kind.type.payload)),
                event=draw(st.integers(1, 4)),
                occurred_at=draw(st.sampled_from(MOMENTS)),
                received_at=draw(st.sampled_from(MOMENTS)),
                idempotency_key=draw(st.sampled_from("kl")),
                source={"type": "t", "execution_id": draw(st.sampled_from(["a", None]))},
            )
        )
    return History(domain, lines)


def _rows(domain: str, reading: SegmentRows) -> dict[str, Any]:
    """All rows but those of the quarantine, whose keys are positions of lines."""
    tables = TIER2[domain]
    return {
        name: fold(tables[name], rows).to_pylist()
        for name, rows in reading.rows.items()
        if name != "quarantine"
    }


LENIENT = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@LENIENT
@given(histories(), st.randoms(use_true_random=False), st.integers(0, 8))
def test_any_order_duplication_and_split_gives_the_same_rows(
    history: History, chance: random.Random, cut: int
) -> None:
    domain, lines = history
    in_order = read_segment(domain, Segment.of(STREAM, 0, lines), {})
    mixed = [*lines, *chance.sample(lines, len(lines) // 2)]
    chance.shuffle(mixed)
    parts = [
        read_segment(domain, Segment.of(STREAM, number, part), {})
        for number, part in enumerate((mixed[:cut], mixed[cut:]))
    ]
    joined = SegmentRows.joined(parts)
    assert _rows(domain, joined) == _rows(domain, in_order)
    assert joined.events == len(mixed)
    # Folding what is folded already, with news, is folding.
    tables = TIER2[domain]
    for name, rows in joined.rows.items():
        pieces = [fold(tables[name], part.rows[name]) for part in parts if name in part.rows]
        refolded = SegmentRows.joined([SegmentRows({name: piece}) for piece in pieces]).rows[name]
        assert fold(tables[name], refolded).equals(fold(tables[name], rows))


@LENIENT
@given(histories())
def test_rows_without_an_order_hold_no_values(history: History) -> None:
    """Else the fold could not choose between two such rows."""
    domain, lines = history
    for name, rows in read_segment(domain, Segment.of(STREAM, 0, lines), {}).rows.items():
        for rule in TIER2[domain][name].rules:
            if rule.keep is MergeStrategy.LAST:
                [order] = rule.order
                for row in rows.to_pylist():
                    values = [row[column] for column in rule.columns if row[column] is not None]
                    assert row[order] is not None or not values
