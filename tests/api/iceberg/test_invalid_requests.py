"""Hostile requests: each is refused in a sentence, quickly, and leaves nothing behind.

The store is compared before and after: no file of a table, number of a chain, transaction or entry of the
ledger is new. Claims of keys may be. The message of a refusal has no path of this machine that the
caller did not name.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.api.iceberg.warehouse import SCHEMA, VERSION, Json, Warehouse, refusal
from tests.api.server import Served, served

DECISIVE = ("/warehouse/", "/iceberg_pointers/", "/transactions/", "/ledger/", "/etc/")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile") / "store"


@pytest.fixture(scope="module")
def api(root: Path) -> Iterator[Served]:
    with served(root) as running:
        yield running


@pytest.fixture(scope="module")
def http(api: Served) -> Iterator[httpx2.Client]:
    with api.client() as client:
        yield client


def _stored(root: Path) -> set[str]:
    """Whatever decides something."""
    actual = (str(path) for path in root.rglob("*") if path.is_file())
    return {each for each in actual if any(part in each for part in DECISIVE)}


def _settled(root: Path) -> set[str]:
    """The same, once nothing goes on any more that earlier requests have left to be done."""
    last, now = None, _stored(root)
    while last != now:
        time.sleep(0.1)
        last, now = now, _stored(root)
    return now


def _refused(
    root: Path, before: set[str], answer: httpx2.Response, *sent_paths: str, status: int = 400
) -> None:
    """It was refused, nothing was stored, and the message has no path but those that the client sent."""
    document, _ = refusal(answer)
    assert document == status, answer.text
    assert _stored(root) - before == set()
    message = answer.json()["error"]["message"]
    for each in sent_paths:
        message = message.replace(each, "") if len(each) > len(str(root)) else message
    assert str(root.parent) not in message
    assert "Traceback" not in message


def _hostile(root: Path, other: str) -> list[str]:
    """Locations that are not allowed: of other tables, of Arco, outside, and tricks to get there."""
    ours = f"file://{root}/tenant=default/workspace=default"
    sibling = other.rpartition("/")[0]
    return [
        *(
            other,
            f"{other}/sub",
            f"{other}2",
            f"{sibling}/x/../{other.rpartition('/')[2]}",
            sibling,
        ),
        *(f"{other}/%2e%2e/x", f"{other}/%252e%252e/x", f"{other}//x", f"{other}/./x"),
        *(
            ours,
            f"{ours}/_catalog/x",
            f"{ours}/warehouse",
            f"{ours}2/warehouse/x",
            f"file://{root}",
        ),
        *(f"file://{root}/tenant=default/workspace=other/warehouse/x", str(root), f"{root}/x"),
        *(f"file://{root}/tenant=other/workspace=default/warehouse/x", f"FILE://{root}/x"),
        *("file:///etc", "file:/etc/x", "/etc/passwd", "file://evil/x", "file://localhost/x"),
        *(
            "s3://bucket/x",
            "s3://key:secret@bucket/x",
            "http://169.254.169.254/latest/",
            "gopher://x",
        ),
        *("http://[::ffff:169.254.169.254]/x", "http://2852039166/x", "memory://x", "relative/x"),
        *(
            "../x",
            " ",
            "file:///x\0y",
            "file:///x\ny",
            "file:///x\\..\\y",
            "file:///x?y",
            "file:///x#y",
        ),
        *("x" * 5_000, "file:///" + "x" * 5_000, "file:///\u202ex"),
    ]


def _snapshot(**paths: object) -> Json:
    actual = {"snapshot-id": 1, "sequence-number": 0, "timestamp-ms": 1, "summary": {}, **paths}
    return {"action": "add-snapshot", "snapshot": actual}


def _statistics(kind: str, path: str) -> Json:
    sizes = {"file-size-in-bytes": 1, "file-footer-size-in-bytes": 1, "blob-metadata": []}
    return {"action": f"set-{kind}", kind: {"snapshot-id": 1, "statistics-path": path, **sizes}}


def test_no_request_about_a_table_reaches_a_place_that_is_not_its_own(
    root: Path, warehouse: Warehouse
) -> None:
    http, tables = warehouse.http, warehouse.url("namespaces", "db", "tables")
    other = warehouse.make_table("other").json()["metadata"]["location"]
    own = warehouse.make_table("t").json()["metadata"]["location"]
    old: Json = {"name": "old", "schema": SCHEMA, "properties": {"format-version": "1"}}
    first = http.post(tables, json=old).json()["metadata"]["location"]
    paths = ("data", "metadata", "object-storage", "folder-storage")
    keys = [f"write.{each}.path" for each in paths]
    before, count = _settled(root), 0
    for place in _hostile(root, other):
        new: Json = {"name": "x", "schema": SCHEMA}
        placing: Json = {"action": "set-location", "location": place}
        bodies = [(tables, {**new, "location": place, "stage-create": s}) for s in (True, False)]
        bodies += [(tables, {**new, "properties": {key: place}}) for key in keys]
        updates: list[Json] = [
            placing,
            *({"action": "set-properties", "updates": {key: place}} for key in keys),
            {"action": "set-properties", "updated": {keys[1]: place}},
            _snapshot(**{"manifest-list": place}),
            _statistics("statistics", place),
            _statistics("partition-statistics", place),
        ]
        bodies += [(warehouse.table("t"), {"updates": [each]}) for each in updates]
        bodies.append((warehouse.table("old"), {"updates": [_snapshot(manifests=[place])]}))
        create: Json = {"requirements": [{"type": "assert-create"}], "updates": [placing]}
        bodies.append((warehouse.table("x"), create))
        changes = [
            {"identifier": {"namespace": ["db"], "name": name}, "updates": [each]}
            for name, each in (("other", _statistics("statistics", other)), ("t", placing))
        ]
        bodies.append((warehouse.url("transactions", "commit"), {"table-changes": changes}))
        for url, body in bodies:
            _refused(root, before, http.post(url, json=body), place, own, first)
            count += 1
    assert count > 700


def test_no_request_about_a_view_reaches_a_place_that_is_not_its_own(
    root: Path, warehouse: Warehouse
) -> None:
    http, views = warehouse.http, warehouse.url("namespaces", "db", "views")
    other = warehouse.make_table("other").json()["metadata"]["location"]
    own = warehouse.make_view("v").json()["metadata"]["location"]
    before = _settled(root)
    for place in _hostile(root, other):
        new = {"name": "x", "schema": SCHEMA, "view-version": VERSION, "properties": {}}
        _refused(root, before, http.post(views, json={**new, "location": place}), place)
        for action in ("set-location", "Set-Location", "SET-LOCATION"):
            body = {"updates": [{"action": action, "location": place}]}
            _refused(root, before, http.post(warehouse.view("v"), json=body), place, own)
        for action in ("set-properties", "Set-Properties"):
            paths = {"updates": [{"action": action, "updates": {"write.metadata.path": place}}]}
            _refused(root, before, http.post(warehouse.view("v"), json=paths), place, own)


def test_nothing_is_registered_that_lies_where_we_may_not_read(
    root: Path, warehouse: Warehouse
) -> None:
    other = warehouse.make_table("other").json()
    warehouse.make_table("t")
    before = _settled(root)
    secret = root / "secret.metadata.json"
    secret.write_text(json.dumps(other["metadata"]))
    places = [*_hostile(root, other["metadata"]["location"]), f"file://{secret}"]
    for route in ("register", "register-view"):
        for place in places:
            for more in ({}, {"overwrite": True}):
                body = {"name": "t", "metadata-location": place, **more}
                answer = warehouse.http.post(warehouse.url("namespaces", "db", route), json=body)
                # Below the warehouse there may be such a file; then it is not there, or taken.
                assert answer.status_code in {400, 404, 409}, answer.text
                _refused(root, before, answer, place, status=answer.status_code)


@pytest.mark.parametrize("key", ["arco.x", "ARCO.x", "aRcO.", " arco.x", "\tArco.x", "arco.\u0130"])
def test_keys_of_arco_itself_are_nobodys_to_set_or_to_remove(
    root: Path, warehouse: Warehouse, key: str
) -> None:
    warehouse.make_table("t")
    warehouse.make_view("v")
    before = _settled(root)
    new = {"schema": SCHEMA, "properties": {key: "1"}}
    changes = [
        {"updates": [{"action": "set-properties", member: {key: "1"}}]}
        for member in ("updates", "updated")
    ] + [
        {"updates": [{"action": "remove-properties", member: [key]}]}
        for member in ("removals", "removed")
    ]
    bodies: list[tuple[str, Json]] = [
        (warehouse.url("namespaces"), {"namespace": ["x"], "properties": {key: "1"}}),
        (warehouse.url("namespaces", "db", "properties"), {"updates": {key: "1"}}),
        (warehouse.url("namespaces", "db", "properties"), {"removals": [key]}),
        (warehouse.url("namespaces", "db", "tables"), {"name": "x", **new}),
        (warehouse.url("namespaces", "db", "tables"), {"name": "x", **new, "stage-create": True}),
        (warehouse.url("namespaces", "db", "views"), {"name": "x", "view-version": VERSION, **new}),
        *((warehouse.table("t"), each) for each in changes),
        *((warehouse.view("v"), each) for each in changes),
    ]
    for url, body in bodies:
        _refused(root, before, warehouse.http.post(url, json=body))


def _bombs() -> Iterator[tuple[str, bytes]]:
    schema = json.dumps(SCHEMA)
    deep, name = "[" * 100_000 + "]" * 100_000, "n" * 1_000_000
    wide = [{"id": i, "name": f"c{i}", "required": False, "type": "int"} for i in range(60_000)]
    kind: object = "int"
    for level in range(100):
        kind = {"type": "list", "element-id": level, "element-required": False, "element": kind}
    nested = {
        "type": "struct",
        "fields": [{"id": 999, "name": "a", "required": False, "type": kind}],
    }
    bodies = {
        "deep": f'{{"name": "x", "schema": {deep}}}',
        "deep and unknown": f'{{"name": "x", "schema": {schema}, "more": {deep}}}',
        "a name of a million letters": f'{{"name": "{name}", "schema": {schema}}}',
        "very many columns": json.dumps(
            {"name": "x", "schema": {"type": "struct", "fields": wide}}
        ),
        "types in types": json.dumps({"name": "x", "schema": nested}),
        "a number of a million digits": f'{{"name": "x", "schema": {{"schema-id": 9{"9" * 10**6}}}}}',
        "not a number": '{"name": "x", "schema": {"schema-id": NaN}}',
        "too large a number": '{"name": "x", "schema": {"schema-id": 1e999}}',
        "half a surrogate": f'{{"name": "\\ud800", "schema": {schema}}}',
        "a zero byte": f'{{"name": "a\\u0000b", "schema": {schema}}}',
        "a list": "[]",
        "nothing": "",
        "not JSON": "{",
        "a type of a million letters": json.dumps(
            {"name": "x", "schema": {"type": "struct", "fields": [{**wide[1], "type": name}]}}
        ),
    }
    for what, text in bodies.items():
        yield what, text.encode()
    yield "not UTF-8", b'{"name": "\xff"}'


@pytest.mark.parametrize(("what", "body"), list(_bombs()), ids=lambda each: str(each)[:30])
def test_bombs_do_no_harm(root: Path, warehouse: Warehouse, what: str, body: bytes) -> None:
    before = _settled(root)
    url, headers = warehouse.url("namespaces", "db", "tables"), {"Content-Type": "application/json"}
    answer = warehouse.http.post(url, content=body, headers=headers)
    assert answer.elapsed.total_seconds() < 20, what
    _refused(root, before, answer)


def test_of_members_that_are_there_twice_the_one_that_is_checked_is_the_one_that_counts(
    root: Path, warehouse: Warehouse
) -> None:
    own = warehouse.make_table("t").json()["metadata"]["location"]
    before, headers = _settled(root), {"Content-Type": "application/json"}
    twice = f'"location": "{own}", "location": "file:///etc"'
    for update in (
        f'{{"action": "set-location", {twice}}}',
        f'{{"action": "set-properties", "updates": {{}}, "action": "set-location", {twice}}}',
        '{"action": "set-properties", "updates": {}, "updates": {"arco.x": "1"}}',
        '{"action": "set-properties", "updates": {}, "updated": {"arco.x": "1"}}',
    ):
        body = f'{{"requirements": [], "updates": [{update}]}}'
        answer = warehouse.http.post(warehouse.table("t"), content=body, headers=headers)
        _refused(root, before, answer, own)


def test_a_refused_commit_under_a_key_leaves_its_claim_and_no_more(
    root: Path, warehouse: Warehouse
) -> None:
    warehouse.make_table("t")
    before, headers = _settled(root), {"Idempotency-Key": "01970000-0000-7000-8000-00000000abcd"}
    body = {"updates": [{"action": "nope"}]}
    for _ in range(2):
        answer = warehouse.http.post(warehouse.table("t"), json=body, headers=headers)
        _refused(root, before, answer)
    assert [path for path in root.rglob("*") if "/idempotency/" in str(path) and path.is_file()]


def test_the_log_has_seen_nothing_unexpected(api: Served, warehouse: Warehouse) -> None:
    assert warehouse.http.get(warehouse.url("namespaces")).status_code == 200
    lines = [json.loads(line) for line in api.log.splitlines()]
    assert lines
    assert [line for line in lines if line["level"] == "error"] == []


def test_properties_of_tables_views_and_namespaces_have_a_size(warehouse: Warehouse) -> None:
    http, long = warehouse.http, "x" * 65_537
    namespace: Json = {"namespace": ["sized"], "properties": {"a": long}}
    assert refusal(http.post(warehouse.url("namespaces"), json=namespace))[0] == 400
    table: Json = {"name": "sized", "schema": SCHEMA, "properties": {"a": long}}
    tables = warehouse.url("namespaces", "db", "tables")
    assert refusal(http.post(tables, json=table))[0] == 400
    view: Json = {
        "name": "sized",
        "schema": SCHEMA,
        "view-version": VERSION,
        "properties": {"a": long},
    }
    views = warehouse.url("namespaces", "db", "views")
    assert refusal(http.post(views, json=view))[0] == 400
    assert warehouse.make_table("sized").status_code == 200
    assert refusal(warehouse.set_property("sized", "a", long))[0] == 400
    updates = {f"k{at}": "x" * 60_000 for at in range(18)}
    change: Json = {
        "requirements": [],
        "updates": [{"action": "set-properties", "updates": updates}],
    }
    answer = http.post(warehouse.table("sized"), json=change)
    assert refusal(answer)[0] == 400
    assert "1048576" in answer.json()["error"]["message"]
    assert warehouse.set_property("sized", "a", "x" * 60_000).status_code == 200


def test_a_key_that_is_there_twice_is_refused(root: Path, warehouse: Warehouse) -> None:
    before, headers = _settled(root), {"Content-Type": "application/json"}
    body = b'{"namespace":["one"],"namespace":["two"]}'
    answer = warehouse.http.post(warehouse.url("namespaces"), content=body, headers=headers)
    _refused(root, before, answer)
    assert "twice" in answer.json()["error"]["message"]
    schema = json.dumps(SCHEMA).encode()
    body = b'{"name":"t2","schema":' + schema + b',"properties":{"a":"1","a":"2"}}'
    tables = warehouse.url("namespaces", "db", "tables")
    _refused(root, before, warehouse.http.post(tables, content=body, headers=headers))
