"""PyIceberg: names of tables, views and namespaces, and where tables lie."""

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchViewError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table
from pyiceberg.view.metadata import ViewVersion

from tests.interop import pyiceberg_client
from tests.interop.pyiceberg_client import ROWS, ids, numbered
from tests.interop.rest import Rest

pytestmark = pytest.mark.interop

client = pyiceberg_client.name

PLAIN = ("a b", "größe", "UPPER")
STRANGE = ("a.b", "a%2Fb", "a+b&c=d?e#f", "a'b\"c", "%", "😀")


def test_a_table_is_renamed_into_another_namespace(
    catalog: Catalog, table: Table, namespace: str
) -> None:
    table.append(numbered(1))
    catalog.create_namespace(f"{namespace}_b")
    catalog.rename_table((namespace, "t"), (f"{namespace}_b", "u"))

    assert catalog.list_tables(namespace) == []
    assert ids(catalog.load_table((f"{namespace}_b", "u"))) == [1]
    catalog.create_table((namespace, "t"), ROWS)
    with pytest.raises(TableAlreadyExistsError):
        catalog.rename_table((namespace, "t"), (f"{namespace}_b", "u"))


def test_a_purged_table_is_gone_and_its_name_is_free(
    catalog: Catalog, table: Table, namespace: str
) -> None:
    table.append(numbered(1))
    catalog.purge_table((namespace, "t"))

    assert catalog.list_tables(namespace) == []
    new_table = catalog.create_table((namespace, "t"), ROWS)
    assert new_table.metadata.table_uuid != table.metadata.table_uuid
    assert ids(new_table) == []


def test_a_table_that_lies_elsewhere_is_registered(
    catalog: Catalog, namespace: str, rest: Rest
) -> None:
    location = (rest.outside / namespace).as_uri()
    table = catalog.create_table((namespace, "t"), ROWS, location=location)
    table.append(numbered(1, 2))
    catalog.drop_table((namespace, "t"))
    registered_table = catalog.register_table((namespace, "again"), table.metadata_location)

    assert registered_table.metadata.table_uuid == table.metadata.table_uuid
    assert registered_table.location() == location
    registered_table.append(numbered(3))
    assert ids(catalog.load_table((namespace, "again"))) == [1, 2, 3]


def test_namespaces_nest(catalog: Catalog, namespace: str) -> None:
    catalog.create_namespace((namespace, "eu"), {"region": "europe"})
    catalog.create_namespace((namespace, "eu", "west"))
    table = catalog.create_table((namespace, "eu", "west", "t"), ROWS)
    table.append(numbered(1))

    assert catalog.list_namespaces(namespace) == [(namespace, "eu")]
    assert catalog.list_namespaces((namespace, "eu")) == [(namespace, "eu", "west")]
    assert catalog.list_tables((namespace, "eu")) == []
    assert ids(catalog.load_table((namespace, "eu", "west", "t"))) == [1]
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace((namespace, "eu", "west"))
    catalog.drop_table((namespace, "eu", "west", "t"))
    catalog.drop_namespace((namespace, "eu", "west"))
    assert catalog.list_namespaces((namespace, "eu")) == []
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_tables((namespace, "eu", "west"))


def test_properties_of_a_namespace_are_set_and_removed(catalog: Catalog, namespace: str) -> None:
    catalog.update_namespace_properties(namespace, updates={"a": "1", "b": "2"})
    summary = catalog.update_namespace_properties(
        namespace, removals={"a", "never"}, updates={"b": "3"}
    )

    assert (summary.removed, summary.updated, summary.missing) == (["a"], ["b"], ["never"])
    properties = catalog.load_namespace_properties(namespace)
    assert "a" not in properties
    assert properties["b"] == "3"


@pytest.mark.parametrize("name", [*PLAIN, *STRANGE])
def test_names_go_there_and_back(catalog: Catalog, namespace: str, name: str, rest: Rest) -> None:
    if name in STRANGE and rest.served is None:
        pytest.skip("other servers accept other names")
    catalog.create_namespace((namespace, name))
    catalog.create_table((namespace, name, name), ROWS).append(numbered(1))

    assert catalog.list_namespaces(namespace) == [(namespace, name)]
    assert catalog.list_tables((namespace, name)) == [(namespace, name, name)]
    assert ids(catalog.load_table((namespace, name, name))) == [1]


def test_a_view_is_created_listed_loaded_and_dropped(catalog: Catalog, namespace: str) -> None:
    version = ViewVersion.model_validate(
        {
            "schema-id": 0,
            "representations": [{"type": "sql", "sql": "SELECT 1 AS one", "dialect": "spark"}],
            "default-namespace": [namespace],
        }
    )
    created_view = catalog.create_view((namespace, "v"), pa.schema([("one", pa.int32())]), version)
    loaded_view = catalog.load_view((namespace, "v"))

    assert catalog.list_views(namespace) == [(namespace, "v")]
    assert catalog.list_tables(namespace) == []
    assert catalog.view_exists((namespace, "v"))
    assert loaded_view.uuid() == created_view.uuid()
    shown = loaded_view.sql_for("spark")
    assert shown is not None
    assert shown.sql == "SELECT 1 AS one"
    assert [field.name for field in loaded_view.schema().fields] == ["one"]
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table((namespace, "v"), ROWS)
    catalog.drop_view((namespace, "v"))
    assert not catalog.view_exists((namespace, "v"))
    with pytest.raises(NoSuchViewError):
        catalog.load_view((namespace, "v"))
