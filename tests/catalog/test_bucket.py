"""Parts and shelves against a dictionary: whatever is committed and merged, all answers are the same."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from arco.catalog.bucket import Bucket
from arco.catalog.model import CommittedRow, SchemaRow, TableRow, to_columns
from arco.catalog.state_file import DecidedRows, RowSource, RowState, StateFile
from arco.fold.fold import fold
from arco.fold.tier1 import COMMIT, POSITION, SCHEMAS, TABLES

AT = datetime(2026, 1, 1, tzinfo=UTC)
LIFE: dict[str, Any] = {
    "created_at": AT,
    "created_by": "user:ann",
    "updated_at": AT,
    "updated_by": "user:ann",
}
PARENTS = ("s1", "s2", "s3")
NAMES = ("", "a", "b", "ä", "\uffff", "\U00010000")

Key = tuple[str, str]


def arrow(rows: list[TableRow], commit: int) -> pa.Table:
    stamped = [to_columns(row) | {COMMIT: commit, POSITION: at} for at, row in enumerate(rows)]
    return fold(TABLES, pa.Table.from_pylist(stamped, schema=TABLES.schema))


def state_of(row: TableRow) -> RowState:
    if row.moved:
        return RowState.MOVED
    return RowState.LIVE if row.dropped_at is None else RowState.DROPPED


class BucketMachine(RuleBasedStateMachine):
    """A bucket that several schemas share, as of a chain of commits."""

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[Key, CommittedRow[TableRow]] = {}
        self.parts: list[RowSource] = []  # newest first
        self.files: list[pa.Table] = []
        self.commits = 0

    @rule(data=st.data(), decided=st.booleans())
    def commit(self, data: st.DataObject, decided: bool) -> None:
        rows = []
        for _ in range(data.draw(st.integers(1, 4))):
            row = self._row(data)
            if row is not None:
                rows.append(row)
                self.model[row.schema_id, row.table_id] = CommittedRow(row, self.commits)
        if rows:
            self.files.insert(0, arrow(rows, self.commits))
            part: RowSource = DecidedRows(TABLES, self.commits, rows)
            self.parts.insert(0, part if decided else StateFile(TABLES, self.files[0]))
            self.commits += 1

    @precondition(lambda self: len(self.files) >= 2)
    @rule(count=st.integers(2, 4))
    def merge_the_oldest(self, count: int) -> None:
        folded = fold(TABLES, pa.concat_tables(self.files[-count:]))
        self.files[-count:] = [folded]
        self.parts[-count:] = [StateFile(TABLES, folded)]

    @invariant()
    def every_key_has_its_row(self) -> None:
        bucket = self._bucket()
        for parent in PARENTS:
            for table_id in "123456":
                committed = self.model.get((parent, table_id))
                expected = None if committed is None or committed.row.moved else committed
                assert bucket.get((parent, table_id)) == expected

    @invariant()
    def every_name_has_its_live_row(self) -> None:
        bucket = self._bucket()
        for parent in PARENTS:
            for name in NAMES:
                assert bucket.live_row((parent,), name) == self._live_at(parent, name)

    @invariant()
    def every_list_is_complete_and_in_order(self) -> None:
        bucket = self._bucket()
        for parent in PARENTS:
            for state in (RowState.LIVE, RowState.DROPPED, None):
                expected = self._expected_rows(parent, state)
                assert _sorted(bucket.below((parent,), state=state)) == expected
                names = [committed.row.name for committed in bucket.below((parent,), state=state)]
                assert names == sorted(names)

    @rule(parent=st.sampled_from(PARENTS), after=st.none() | st.sampled_from(NAMES))
    def a_list_goes_on_after_a_name(self, parent: str, after: str | None) -> None:
        for state in (RowState.LIVE, RowState.DROPPED, None):
            expected = [
                f for f in self._expected_rows(parent, state) if after is None or f.row.name > after
            ]
            assert _sorted(self._bucket().below((parent,), after=after, state=state)) == expected

    @rule(parent=st.sampled_from(PARENTS), limit=st.integers(1, 3))
    def pages_are_the_list(self, parent: str, limit: int) -> None:
        bucket = self._bucket()
        for state in (RowState.LIVE, RowState.DROPPED):
            paged: list[CommittedRow[TableRow]] = []
            after, after_key = None, None
            while page := bucket.below(
                (parent,), after=after, after_key=after_key, limit=limit, state=state
            ):
                paged += page
                assert len(page) <= limit
                after, after_key = page[-1].row.name, (parent, page[-1].row.table_id)
            assert paged == bucket.below((parent,), state=state)
            assert _sorted(paged) == self._expected_rows(parent, state)

    def _bucket(self) -> Bucket[TableRow]:
        return Bucket(self.parts)

    def _expected_rows(self, parent: str, state: RowState | None) -> list[CommittedRow[TableRow]]:
        states = (RowState.LIVE, RowState.DROPPED) if state is None else (state,)
        return _sorted(
            committed
            for (schema_id, _), committed in self.model.items()
            if schema_id == parent and state_of(committed.row) in states
        )

    def _live_at(self, parent: str, name: str) -> CommittedRow[TableRow] | None:
        live = [f for f in self._expected_rows(parent, RowState.LIVE) if f.row.name == name]
        return live[0] if live else None

    def _row(self, data: st.DataObject) -> TableRow | None:
        """A row that a decision could make: names are unique among the living."""
        row = TableRow(
            **LIFE,
            catalog_id="c",
            schema_id=data.draw(st.sampled_from(PARENTS)),
            table_id=data.draw(st.sampled_from("123456")),
            name=data.draw(st.sampled_from(NAMES)),
            dropped_at=data.draw(st.sampled_from([None, None, AT])),
            moved=data.draw(st.sampled_from([False, False, True])),
            tags=tuple(data.draw(st.lists(st.sampled_from("xy"), max_size=2))),
            properties=data.draw(st.dictionaries(st.just("k"), st.sampled_from("vw"))),
        )
        name_holder = self._live_at(row.schema_id, row.name)
        if (
            state_of(row) is RowState.LIVE
            and name_holder
            and name_holder.row.table_id != row.table_id
        ):
            return None
        return row


def _sorted(rows: object) -> list[CommittedRow[TableRow]]:
    return sorted(rows, key=lambda each: (each.row.name, each.row.table_id))  # type: ignore[call-overload, no-any-return]


TestBucket = BucketMachine.TestCase
TestBucket.settings = settings(max_examples=25, stateful_step_count=12)


def schema(schema_id: str, parent_id: str | None, name: str) -> SchemaRow:
    return SchemaRow(
        **LIFE, schema_id=schema_id, catalog_id="c", parent_id=parent_id, name=name, path=(name,)
    )


def test_schemas_without_a_parent_come_first_and_are_looked_up_alike() -> None:
    rows = [schema("2", "1", "a"), schema("1", None, "z"), schema("3", None, "a")]
    stamped = [to_columns(row) | {COMMIT: 0, POSITION: at} for at, row in enumerate(rows)]
    file = StateFile(SCHEMAS, fold(SCHEMAS, pa.Table.from_pylist(stamped, schema=SCHEMAS.schema)))
    for part in (file, DecidedRows(SCHEMAS, 0, rows)):
        bucket: Bucket[SchemaRow] = Bucket([part])
        assert [committed.row.name for committed in bucket.below(("c", ""))] == ["a", "z"]
        assert [committed.row.name for committed in bucket.below(("c", "1"))] == ["a"]
        committed = bucket.live_row(("c", ""), "a")
        assert committed is not None
        assert committed.row.schema_id == "3"
        assert bucket.below(("d", "")) == []


def test_a_long_list_comes_in_order_from_all_its_parts() -> None:
    rows = [
        TableRow(**LIFE, catalog_id="c", schema_id="s", table_id=f"{n:04d}", name=f"t{n:04d}")
        for n in range(900)
    ]
    old, new = StateFile(TABLES, arrow(rows[::2], 0)), StateFile(TABLES, arrow(rows[1::2], 1))
    bucket: Bucket[TableRow] = Bucket([new, old])
    assert [committed.row for committed in bucket.below(("s",))] == rows
    assert [committed.row for committed in bucket.below(("s",), after="t0299", limit=300)] == rows[
        300:600
    ]


def test_decided_rows_show_whether_an_answer_depends_on_them() -> None:
    row = TableRow(**LIFE, catalog_id="c", schema_id="s1", table_id="1", name="a")
    questions: list[tuple[Callable[[DecidedRows], object], bool]] = [
        (lambda p: p.find(("s1", "1")), True),
        (lambda p: p.find(("s1", "2")), False),
        (lambda p: p.exactly(("s1",), "a"), True),
        (lambda p: p.exactly(("s1",), "b"), False),
        (lambda p: p.span(("s1",)), True),
        (lambda p: p.span(("s1",), "a"), False),
        (lambda p: p.span(("s2",)), False),
    ]
    for ask, met in questions:
        part = DecidedRows(TABLES, 1, [row])
        ask(part)
        assert part.was_read is met
