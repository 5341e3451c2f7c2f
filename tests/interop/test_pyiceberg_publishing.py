"""PyIceberg: a commit that publishes an attempt at a task meets the fence of the server."""

import time
from uuid import uuid4

import httpx2
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import ForbiddenError
from pyiceberg.table import Table

from arco.catalog.publication import ATTEMPT_PROPERTY, DispatchedAttempt
from arco.core import json
from tests.interop import pyiceberg_client
from tests.interop.pyiceberg_client import ids, numbered
from tests.interop.rest import Rest

pytestmark = pytest.mark.interop

client = pyiceberg_client.name


def _attempt(name: str, number: int, partition: str = "ds=1") -> dict[str, str]:
    """The properties of a snapshot that an attempt has made."""
    attempt = DispatchedAttempt(
        attempt_id=name,
        task=f"run/t@{partition}",
        dispatched_at_number=number,
        dispatched_at_ms=int(time.time() * 1000),
        partitions=(partition,),
    )
    return {ATTEMPT_PROPERTY: json.encode(attempt).decode()}


def _move_main(rest: Rest, table: Table, namespace: str, snapshot_id: int) -> httpx2.Response:
    """Have `main` name a snapshot, as a client does that knows nothing but the protocol."""
    current = table.refresh().current_snapshot()
    current_id = None if current is None else current.snapshot_id
    body = {
        "requirements": [
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": current_id}
        ],
        "updates": [
            {
                "action": "set-snapshot-ref",
                "ref-name": "main",
                "type": "branch",
                "snapshot-id": snapshot_id,
            }
        ],
    }
    url = f"{rest.uri}/v1/{rest.warehouse}/namespaces/{namespace}/tables/t"
    headers = {"Idempotency-Key": str(uuid4())}
    return httpx2.post(url, json=body, headers=headers, trust_env=False)


def _stage(table: Table, name: str, number: int, *rows: int) -> int:
    """A snapshot on a separate branch, which readers of the table do not see."""
    head = table.refresh().current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, name).commit()
    table.append(numbered(*rows), snapshot_properties=_attempt(name, number), branch=name)
    staged = table.refresh().snapshot_by_name(name)
    assert staged is not None
    return staged.snapshot_id


def test_of_two_staged_attempts_the_first_becomes_main_and_the_second_never_does(
    rest: Rest, table: Table, namespace: str
) -> None:
    table.append(numbered(1))
    one, two = _stage(table, "one", 1, 2), _stage(table, "two", 1, 3)
    assert ids(table.refresh()) == [1]
    assert _move_main(rest, table, namespace, one).status_code == 200
    assert ids(table.refresh()) == [1, 2]
    fenced_response = _move_main(rest, table, namespace, two)
    assert fenced_response.status_code == 403
    assert fenced_response.json()["error"]["type"] == "AttemptFencedException"
    assert ids(table.refresh()) == [1, 2]
    repeated_response = _move_main(rest, table, namespace, one)
    assert repeated_response.status_code == 200


def test_an_append_that_names_a_late_attempt_is_refused_and_not_tried_again(
    catalog: Catalog, table: Table, namespace: str
) -> None:
    table.append(numbered(1), snapshot_properties=_attempt("one", 0))
    other = catalog.load_table((namespace, "t"))
    with pytest.raises(ForbiddenError, match="attempt one of run/t@ds=1 has published ds=1"):
        other.append(numbered(2), snapshot_properties=_attempt("two", 0))
    other.append(numbered(3), snapshot_properties=_attempt("three", 0, "ds=2"))
    assert ids(table.refresh()) == [1, 3]


def test_an_append_that_is_repeated_by_its_attempt_adds_nothing(table: Table) -> None:
    for _ in range(3):
        table.refresh().append(numbered(1), snapshot_properties=_attempt("one", 0))
    assert ids(table.refresh()) == [1]


def test_a_table_goes_back_to_what_an_attempt_has_published(table: Table) -> None:
    table.append(numbered(1), snapshot_properties=_attempt("one", 0))
    first = table.refresh().current_snapshot()
    table.append(numbered(2), snapshot_properties=_attempt("two", 1))
    assert first is not None
    table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    assert ids(table.refresh()) == [1]
