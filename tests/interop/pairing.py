"""A writer with DuckDB: puts each id into two tables by one transaction, and prints how each of them ended.

    python -m tests.interop.pairing URI WAREHOUSE NAMESPACE FIRST ROWS

A conflict is a definite no, after which the pair is sent again. Any other failure leaves the outcome open.
"""

import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from tests.interop.duckdb_client import connect
from tests.interop.rest import Rest
from tests.interop.writers import write

_CONFLICTS = 300
_PATIENCE_S = 90.0


def main(uri: str, warehouse: str, namespace: str, first: int, rows: int) -> None:
    rest = Rest(uri, warehouse, Path())
    with TemporaryDirectory() as extensions:
        write(first, rows, lambda each: _put(rest, Path(extensions), namespace, each))


def _put(rest: Rest, extensions: Path, namespace: str, each: int) -> str:
    for _ in range(_CONFLICTS):
        db = _begin(rest, extensions, namespace, each)
        try:
            db.execute("COMMIT")
        except duckdb.Error as problem:
            if "409" not in str(problem):
                return "unknown"
            time.sleep(random.uniform(0, 0.05))
        else:
            return "done"
        finally:
            db.close()
    raise SystemExit(f"pair {each} met {_CONFLICTS} conflicts in a row")


def _begin(rest: Rest, extensions: Path, namespace: str, each: int) -> duckdb.DuckDBPyConnection:
    """A transaction that lacks its commit alone: until then nothing can have been done."""
    until_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            db = connect(rest, extensions)
            db.execute("BEGIN")
            db.execute(f"INSERT INTO arco.{namespace}.a VALUES ({each})")
            db.execute(f"INSERT INTO arco.{namespace}.b VALUES ({each})")
        except duckdb.Error:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.1)
        else:
            return db


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
