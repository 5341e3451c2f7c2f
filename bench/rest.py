"""A REST catalog to be measured, ours or another: namespaces, tables and snapshots to measure it with."""

import json
import random
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from uuid import UUID

from bench.load import Answer, Connection, Load, Plan, Read, Write, load, request
from bench.process import Server

_BATCH = 500  # snapshots in one commit
_TYPES = ("long", "string", "timestamptz", "double", "int", "boolean", "date", "string", "string")


@dataclass(frozen=True)
class Table:
    """A table that was made."""

    path: str
    uuid: str


class Catalog:
    """One catalog behind one server."""

    def __init__(
        self,
        server: Server,
        root: str = "",
        warehouse: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.server = server
        self._headers = dict(headers or {})
        self._rng = random.Random(7)
        asked = "" if warehouse is None else f"?warehouse={quote(warehouse)}"
        self.config_path = f"{root}/v1/config{asked}"
        config = self.get(self.config_path)
        prefix = {**config["defaults"], **config["overrides"]}.get("prefix")
        self._namespaces = f"{root}/v1{'' if prefix is None else '/' + prefix}/namespaces"

    def load(
        self,
        todo: Read | Write,
        *,
        connections: int,
        seconds: float = 0.0,
        count: int | None = None,
        warm_s: float = 0.0,
    ) -> Load:
        """The server under a load."""
        plan = Plan(
            port=self.server.port,
            connections=connections,
            seconds=seconds,
            count=count,
            warm_s=warm_s,
            headers=self._headers,
            read=todo if isinstance(todo, Read) else None,
            write=todo if isinstance(todo, Write) else None,
        )
        return load(self.server, plan)

    def call(self, method: str, path: str, document: object = None) -> Any:
        """The answer, which must be a success."""
        body = b"" if document is None else json.dumps(document).encode()
        answer = self._ask(request(method, path, self._headers, body))
        if answer.status not in {200, 201}:
            raise AssertionError(f"{method} {path}: {answer.status} {answer.body[:300]!r}")
        return json.loads(answer.body)

    def get(self, path: str) -> Any:
        """A document."""
        return self.call("GET", path)

    def etag(self, path: str) -> str:
        """The version of what a path leads to; empty if the server does not answer 304 to it."""
        etag = self._ask(request("GET", path, self._headers)).header("etag")
        known = {**self._headers, "If-None-Match": etag}
        return etag if etag and self._ask(request("GET", path, known)).status == 304 else ""

    def namespace(self, name: str) -> str:
        """Where a namespace is."""
        return f"{self._namespaces}/{name}"

    def make_namespace(self, name: str) -> None:
        """Make a namespace."""
        self.call("POST", self._namespaces, {"namespace": [name], "properties": {"owner": "bench"}})

    def tables(self, namespace: str) -> str:
        """Where the tables of a namespace are."""
        return f"{self.namespace(namespace)}/tables"

    def make_table(self, namespace: str, name: str) -> Table:
        """Make a table of nine columns."""
        made = self.call("POST", self.tables(namespace), new_table(name))
        return Table(f"{self.tables(namespace)}/{name}", made["metadata"]["table-uuid"])

    def add_snapshots(self, table: Table, count: int) -> None:
        """Append so many snapshots, many in a commit; the files that they name are never looked at."""
        metadata = self.get(table.path)["metadata"]
        place, parent = metadata["location"], None
        moment = max(time.time_ns() // 1_000_000, metadata["last-updated-ms"])
        for first in range(0, count, _BATCH):
            updates: list[dict[str, Any]] = []
            base = parent
            for number in range(first + 1, min(first + _BATCH, count) + 1):
                snapshot = _snapshot(self._rng, place, number, moment + number, parent)
                parent = snapshot["snapshot-id"]
                updates.append({"action": "add-snapshot", "snapshot": snapshot})
            main = {"ref-name": "main", "type": "branch", "snapshot-id": parent}
            updates.append({"action": "set-snapshot-ref", **main})
            requirement = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": base}
            self.call("POST", table.path, {"requirements": [requirement], "updates": updates})

    def _ask(self, raw: bytes) -> Answer:
        """One request on a connection of its own: one that is kept idle is closed by the server."""
        with closing(Connection(self.server.port)) as connection:
            connection.send(raw)
            return connection.answer()


def new_table(name: str) -> dict[str, Any]:
    """The request for a table."""
    fields = [
        {"id": number, "name": f"column_{number}", "required": False, "type": kind}
        for number, kind in enumerate(_TYPES, 1)
    ]
    part = {"name": "month", "transform": "month", "source-id": 7, "field-id": 1000}
    return {
        "name": name,
        "schema": {"type": "struct", "schema-id": 0, "fields": fields},
        "partition-spec": {"spec-id": 0, "fields": [part]},
        "properties": {f"bench.property-{n}": f"value-{n}" for n in range(5)},
    }


def with_snapshots(count: int) -> dict[str, Any]:
    """Metadata of a table with so many snapshots, as far as their size goes."""
    rng, place, parent = random.Random(7), "s3://bucket/warehouse/table", None
    snapshots = []
    for number in range(1, count + 1):
        snapshots.append(_snapshot(rng, place, number, number, parent))
        parent = snapshots[-1]["snapshot-id"]
    return {**new_table("table"), "format-version": 2, "location": place, "snapshots": snapshots}


def commit_of(table: Table) -> str:
    """A commit of one property, for `bench.load`."""
    return json.dumps(
        {
            "requirements": [{"type": "assert-table-uuid", "uuid": table.uuid}],
            "updates": [
                {"action": "set-properties", "updates": {"bench.writer-@writer@": "@count@"}}
            ],
        }
    )


def _snapshot(
    rng: random.Random, place: str, number: int, moment: int, parent: int | None
) -> dict[str, Any]:
    snapshot_id = rng.getrandbits(62) | 1
    unique = UUID(int=rng.getrandbits(128))
    return {
        "snapshot-id": snapshot_id,
        **({} if parent is None else {"parent-snapshot-id": parent}),
        "sequence-number": number,
        "timestamp-ms": moment,
        "schema-id": 0,
        "manifest-list": f"{place}/metadata/snap-{snapshot_id}-1-{unique}.avro",
        "summary": {
            "operation": "append",
            "added-data-files": "4",
            "added-records": "100000",
            "added-files-size": "7340032",
            "changed-partition-count": "1",
            "total-records": str(number * 100_000),
            "total-files-size": str(number * 7_340_032),
            "total-data-files": str(number * 4),
            "total-delete-files": "0",
            "total-position-deletes": "0",
            "total-equality-deletes": "0",
        },
    }
