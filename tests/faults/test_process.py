"""The server as a process of its own, with its script set through the control door."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def address() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.faults.server", "--port", "0"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def ask(method: str, url: str, body: bytes | None = None) -> tuple[int, bytes]:
    try:
        with urlopen(Request(url, body, method=method), timeout=5) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        return error.code, error.read()


def order(address: str, **orders: object) -> int:
    return ask("POST", f"{address}/_faults", json.dumps(orders).encode())[0]


def test_a_process_serves_and_takes_orders(address: str) -> None:
    rule = {"fault": "error_after", "verb": "put", "key": "k", "times": 1}
    assert order(address, rules=[rule], seed=7) == 200
    assert ask("PUT", f"{address}/bucket/k", b"1")[0] == 500
    assert ask("GET", f"{address}/bucket/k") == (200, b"1")
    assert ask("PUT", f"{address}/bucket/k", b"2")[0] == 200

    state = json.loads(ask("GET", f"{address}/_faults")[1])
    assert state["counts"] == {"get": {"200": 1}, "put": {"200": 1, "error_after": 1}}
    assert [rule["struck"] for rule in state["rules"]] == [1]

    assert order(address, clear=True, ignore_conditions=True, page_limit=5) == 200
    state = json.loads(ask("GET", f"{address}/_faults")[1])
    assert state["rules"] == []
    assert state["modes"] == {
        "ignore_conditions": True,
        "writes_per_second_per_name": None,
        "page_limit": 5,
    }


def test_orders_that_are_not_understood_change_nothing(address: str) -> None:
    assert order(address, rules=[{"fault": "no_such_fault"}]) == 400
    assert order(address, clean=True) == 400
    assert json.loads(ask("GET", f"{address}/_faults")[1])["rules"] == []
