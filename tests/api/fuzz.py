"""Requests made up from the OpenAPI document, right ones and wrong ones, against a running server.

`python -m tests.api.fuzz --requests 20000` starts a server of its own on a fresh directory and prints the
figure: how many requests, and that none was answered with a 5xx or against the document (figure 17). The
Iceberg REST catalog, which is not in the document, gets as many again from generators of its own.
"""

import argparse
import math
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.core.result import Ok

from tests.api.iceberg.fuzz import fuzz_iceberg
from tests.api.server import served

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
# Half of the requests are about what is there: made-up names alone would find nothing but 404.
KNOWN = {
    "catalog": "fuzz",
    "schema": "raw",
    "table": "orders",
    "column": "id",
    "number": "0",
    "domain": "catalog",
}
SKIPPED = frozenset({"/metrics", "/api/v1/openapi.json"})  # large, and without parameters


@dataclass
class Tally:
    """What was answered."""

    statuses: Counter[int] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return self.statuses.total()


def fuzz(url: str, *, count: int, start: int = 0) -> Tally:
    """Send about `count` requests; the first one that is answered wrongly is raised."""
    tally = Tally()
    schema = schemathesis.openapi.from_url(f"{url}/api/v1/openapi.json")
    operations = [each.ok() for each in schema.get_all_operations() if isinstance(each, Ok)]
    operations = [each for each in operations if each.path not in SKIPPED and each.method != "head"]
    plain = [each for each in operations if not _can_be_wrong(each)]
    others = [each for each in operations if _can_be_wrong(each)]
    both = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    plan = [(each, GenerationMode.POSITIVE, 1) for each in plain]
    share = math.ceil(count / len(others) / len(both))
    plan += [(each, mode, share) for each in others for mode in both]
    with requests.Session() as session:
        session.trust_env = False
        for number, (operation, mode, examples) in enumerate(plan):
            existing_values, cases = _prepare(url), operation.as_strategy(mode)
            _attack(session, url, cases, existing_values, tally, examples, start + number)
    return tally


def _can_be_wrong(operation: Any) -> bool:
    """Whether there is anything about a request to it that can be wrong."""
    return any(each.location != "header" for each in operation.iter_parameters())


def _attack(
    session: requests.Session,
    url: str,
    cases: Any,
    existing_values: dict[str, str],
    tally: Tally,
    count: int,
    start: int,
) -> None:
    @seed(start)
    @settings(
        max_examples=count,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        database=None,
        deadline=None,
    )
    @given(case=cases, on_known=st.booleans())
    def attack(case: Any, on_known: bool) -> None:
        if on_known:
            names = (case.path_parameters or {}).items()
            case.path_parameters = {name: existing_values.get(name, text) for name, text in names}
            case.headers.pop("Idempotency-Key", None)  # made-up keys repeat, and are refused then
        _hurry(case)
        answer = case.call(base_url=url, session=session, timeout=30)
        tally.statuses[answer.status_code] += 1
        case.validate_response(answer, checks=CHECKS)

    attack()


def _hurry(case: Any) -> None:
    """Whoever may wait for something to happen need not: nothing will."""
    for part in (case.body, case.query):
        if isinstance(part, dict) and isinstance(part.get("wait_ms"), int):
            part["wait_ms"] = min(part["wait_ms"], 1)


def _prepare(url: str) -> dict[str, str]:
    """Something to be right about; made again, since what was made before may be dropped by now."""
    with httpx2.Client(base_url=f"{url}/api/v1", trust_env=False) as http:
        http.post("/catalogs", json={"name": "fuzz"})
        http.post("/catalogs/fuzz/schemas", json={"name": "raw"})
        columns = [{"name": "id", "data_type": "bigint"}, {"name": "b", "data_type": "string"}]
        body = {"name": "orders", "format": "PARQUET", "columns": columns}
        http.post("/catalogs/fuzz/schemas/raw/tables", json=body)
        made = http.get("/catalogs/fuzz/schemas/raw/tables/orders").json()
    return {**KNOWN, "id": made["id"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "store") as api:
        tally = fuzz(api.url, count=asked.requests, start=asked.seed)
        _show("native", tally.statuses)
        with api.client() as http:
            _show("Iceberg", fuzz_iceberg(http, count=asked.requests, start=asked.seed))
        assert '"level":"error"' not in api.log


def _show(what: str, statuses: Counter[int]) -> None:
    """A 503 is the right answer to a key that comes back while its first attempt is open."""
    shown = ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
    print(f"{what}: {statuses.total()} requests, 0 wrong answers ({shown})")


if __name__ == "__main__":
    main()
