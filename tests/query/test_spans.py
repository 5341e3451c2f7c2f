from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from arco.query.pruning import (
    ALL_VALUES,
    NO_VALUES,
    Span,
    Spans,
    intersect,
    overlaps_range,
    point_spans,
    union,
)

TEXT = st.text(alphabet="aбz\U0001f600", max_size=2)
ENDS = st.one_of(st.none(), TEXT)


def _holds(spans: Spans, value: str) -> bool:
    return any(span.overlaps(value, value) for span in spans)


def _ends_before(one: Span, other: Span) -> bool:
    return one.high is not None and other.low is not None and one.high < other.low


def _span(ends: tuple[str | None, str | None]) -> Spans:
    low, high = ends
    if low is not None and high is not None and low > high:
        low, high = high, low
    return (Span(low, high),)


SPANS = st.recursive(
    st.one_of(
        st.tuples(ENDS, ENDS).map(_span),
        st.lists(TEXT, max_size=4).map(point_spans),
        st.just(ALL_VALUES),
        st.just(NO_VALUES),
    ),
    lambda inner: st.tuples(st.sampled_from((intersect, union)), inner, inner).map(
        lambda each: each[0](each[1], each[2])
    ),
    max_leaves=6,
)


@given(SPANS, SPANS, TEXT)
def test_a_value_meets_both_or_either_as_it_meets_each(
    one: Spans, other: Spans, value: str
) -> None:
    assert _holds(intersect(one, other), value) == (_holds(one, value) and _holds(other, value))
    assert _holds(union(one, other), value) == (_holds(one, value) or _holds(other, value))
    for spans in (intersect(one, other), union(one, other)):
        assert all(_ends_before(*each) for each in pairwise(spans))


@given(SPANS, TEXT, TEXT)
def test_a_range_is_reached_as_one_of_the_spans_overlaps_it(spans: Spans, a: str, b: str) -> None:
    low, high = sorted((a, b))
    assert overlaps_range(spans, low, high) == any(span.overlaps(low, high) for span in spans)


@given(st.lists(st.text(max_size=3)))
def test_texts_sort_as_their_bytes_do(texts: list[str]) -> None:
    assert sorted(texts) == [raw.decode() for raw in sorted(text.encode() for text in texts)]


def test_too_many_points_become_one_span_that_holds_them() -> None:
    values = [f"{n:06d}" for n in range(30_000)]
    assert point_spans(values) == (Span(values[0], values[-1]),)
    assert point_spans(values[:100]) == tuple(Span(value, value) for value in values[:100])
