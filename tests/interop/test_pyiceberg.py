"""PyIceberg: rows, schemas, partitions, snapshots and transactions of tables."""

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, IntegerType, LongType, StringType

from tests.interop import pyiceberg_client
from tests.interop.pyiceberg_client import ROWS, content, ids, numbered, rows
from tests.interop.rest import Rest
from tests.interop.writers import writing

pytestmark = pytest.mark.interop

client = pyiceberg_client.name

WRITERS = 8
ROWS_EACH = 6


def test_a_table_is_created_listed_loaded_and_dropped(catalog: Catalog, namespace: str) -> None:
    created_table = catalog.create_table((namespace, "t"), ROWS, properties={"team": "sales"})
    loaded_table = catalog.load_table((namespace, "t"))

    assert catalog.list_tables(namespace) == [(namespace, "t")]
    assert catalog.table_exists((namespace, "t"))
    assert loaded_table.metadata == created_table.metadata
    assert loaded_table.properties["team"] == "sales"
    assert [field.name for field in loaded_table.schema().fields] == ["id", "word"]
    catalog.drop_table((namespace, "t"))
    assert not catalog.table_exists((namespace, "t"))
    assert catalog.list_tables(namespace) == []
    with pytest.raises(NoSuchTableError):
        catalog.load_table((namespace, "t"))


def test_a_name_is_given_once(catalog: Catalog, table: Table, namespace: str) -> None:
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table((namespace, "t"), ROWS)
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace(namespace)


def test_what_is_appended_is_read_back(table: Table) -> None:
    table.append(rows((1, "a"), (2, "b")))
    table.append(rows((3, "c")))

    assert content(table) == [
        {"id": 1, "word": "a"},
        {"id": 2, "word": "b"},
        {"id": 3, "word": "c"},
    ]
    assert ids(table, row_filter="id >= 2", selected_fields=("id",)) == [2, 3]


def test_an_overwrite_replaces_all_or_what_a_filter_names(table: Table) -> None:
    table.append(numbered(1, 2, 3))
    table.overwrite(rows((3, "new")), overwrite_filter="id = 3")
    assert content(table)[2] == {"id": 3, "word": "new"}
    table.overwrite(numbered(9))

    assert ids(table) == [9]


def test_a_delete_takes_what_the_filter_names(table: Table) -> None:
    table.append(numbered(1, 2, 3, 4))
    table.delete("id >= 3")

    assert ids(table) == [1, 2]


def test_an_upsert_changes_rows_and_adds_others(table: Table) -> None:
    table.append(numbered(1, 2))
    result = table.upsert(rows((2, "new"), (3, "c")), join_cols=["id"])

    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    assert [row["word"] for row in content(table)] == ["w1", "new", "c"]


def test_columns_are_added_renamed_widened_moved_and_dropped(
    catalog: Catalog, namespace: str
) -> None:
    schema = pa.schema([("id", pa.int32()), ("word", pa.string()), ("old", pa.string())])
    table = catalog.create_table((namespace, "t"), schema)
    table.append(pa.Table.from_pylist([{"id": 1, "word": "a", "old": "x"}], schema=schema))
    with table.update_schema() as update:
        update.add_column("price", DoubleType(), doc="In euros")
        update.rename_column("word", "text")
        update.update_column("id", LongType())
        update.delete_column("old")
        update.move_first("word")  # by the name before this change
    loaded_table = catalog.load_table((namespace, "t"))

    fields = [(field.name, field.field_type) for field in loaded_table.schema().fields]
    assert fields == [("text", StringType()), ("id", LongType()), ("price", DoubleType())]
    assert content(loaded_table) == [{"text": "a", "id": 1, "price": None}]
    with pytest.raises(ValueError, match="old"):
        loaded_table.scan(row_filter="old = 'x'").to_arrow()
    with table.update_schema() as update:
        update.add_column("old", IntegerType())
    assert content(table) == [{"text": "a", "id": 1, "price": None, "old": None}]


def test_partitions_change_while_old_files_stay_readable(table: Table) -> None:
    table.append(numbered(1, 2))
    with table.update_spec() as update:
        update.add_field("word", IdentityTransform(), "by_word")
    table.append(numbered(3))
    with table.update_spec() as update:
        update.remove_field("by_word")
        update.add_field("id", IdentityTransform(), "by_id")
    table.append(numbered(4))

    assert ids(table) == [1, 2, 3, 4]
    assert ids(table, row_filter="word = 'w3'") == [3]
    assert [field.name for field in table.spec().fields] == ["by_id"]
    files = table.inspect.files().to_pylist()
    assert sorted(file["spec_id"] for file in files) == [0, 1, 2]


def test_a_sort_order_is_kept(catalog: Catalog, table: Table, namespace: str) -> None:
    with table.update_sort_order() as update:
        update.asc("id", IdentityTransform())
    loaded_table = catalog.load_table((namespace, "t"))

    assert loaded_table.sort_order() == table.sort_order()
    assert len(loaded_table.sort_order().fields) == 1


def test_branches_and_tags_have_their_own_rows(table: Table) -> None:
    table.append(numbered(1))
    first = table.current_snapshot()
    assert first is not None
    table.manage_snapshots().create_tag(first.snapshot_id, "v1").create_branch(
        first.snapshot_id, "trial"
    ).commit()
    table.append(numbered(2), branch="trial")
    table.append(numbered(3))

    assert ids(table) == [1, 3]
    branch, tag = table.snapshot_by_name("trial"), table.snapshot_by_name("v1")
    assert branch is not None
    assert tag is not None
    assert ids(table, snapshot_id=branch.snapshot_id) == [1, 2]
    assert ids(table, snapshot_id=tag.snapshot_id) == [1]
    table.manage_snapshots().remove_tag("v1").remove_branch("trial").commit()
    assert set(table.refs()) == {"main"}


def test_an_old_snapshot_is_read_and_returned_to(table: Table) -> None:
    table.append(numbered(1))
    first = table.current_snapshot()
    assert first is not None
    table.append(numbered(2))

    assert ids(table, snapshot_id=first.snapshot_id) == [1]
    table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    assert ids(table) == [1]


def test_old_snapshots_are_expired(catalog: Catalog, table: Table, namespace: str) -> None:
    for each in (1, 2, 3):
        table.append(numbered(each))
    table.maintenance.expire_snapshots().by_ids(
        [snapshot.snapshot_id for snapshot in table.snapshots()[:2]]
    ).commit()
    loaded_table = catalog.load_table((namespace, "t"))

    assert len(loaded_table.snapshots()) == 1
    assert ids(loaded_table) == [1, 2, 3]
    assert [entry.snapshot_id for entry in loaded_table.history()] == [
        loaded_table.snapshots()[0].snapshot_id
    ]


def test_a_transaction_is_one_change_of_the_table(
    catalog: Catalog, table: Table, namespace: str
) -> None:
    before = len(table.metadata.metadata_log)
    with table.transaction() as transaction:
        with transaction.update_schema() as update:
            update.add_column("price", DoubleType())
        transaction.set_properties(stage="two")
        transaction.append(numbered(1).append_column("price", pa.array([1.5])))
    loaded_table = catalog.load_table((namespace, "t"))

    assert content(loaded_table) == [{"id": 1, "word": "w1", "price": 1.5}]
    assert loaded_table.properties["stage"] == "two"
    assert len(loaded_table.metadata.metadata_log) == before + 1


def test_a_transaction_that_fails_changes_nothing(
    catalog: Catalog, table: Table, namespace: str
) -> None:
    def fail() -> None:
        with table.transaction() as transaction:
            transaction.append(numbered(1))
            raise KeyError("on the way")

    with pytest.raises(KeyError):
        fail()

    assert catalog.load_table((namespace, "t")).metadata == table.metadata


def test_a_table_is_created_with_its_first_rows_at_once(catalog: Catalog, namespace: str) -> None:
    with catalog.create_table_transaction((namespace, "t"), ROWS) as transaction:
        transaction.set_properties(made="at once")
        transaction.append(numbered(1, 2))
        assert not catalog.table_exists((namespace, "t"))
    loaded_table = catalog.load_table((namespace, "t"))

    assert ids(loaded_table) == [1, 2]
    assert loaded_table.properties["made"] == "at once"


def test_a_stale_change_of_the_schema_is_refused(
    catalog: Catalog, table: Table, namespace: str
) -> None:
    other = catalog.load_table((namespace, "t"))
    with other.update_schema() as update:
        update.add_column("theirs", StringType())
    with pytest.raises(CommitFailedException), table.update_schema() as update:
        update.add_column("ours", StringType())

    names = [field.name for field in catalog.load_table((namespace, "t")).schema().fields]
    assert names == ["id", "word", "theirs"]


def test_no_row_of_eight_processes_is_lost_or_doubled(
    rest: Rest, table: Table, namespace: str
) -> None:
    with writing(
        "tests.interop.appending", [rest], f"{namespace}.t", count=WRITERS, rows=ROWS_EACH
    ) as writers:
        outcomes = writers.outcomes()
    stored_ids = ids(table.refresh())

    assert outcomes.faults(stored_ids) == []
    assert len(outcomes.done) == WRITERS * ROWS_EACH
    assert len(table.snapshots()) == len(stored_ids)
