"""A writer with PyIceberg: appends a row at a time and prints how each of them ended.

    python -m tests.interop.appending URI WAREHOUSE TABLE FIRST ROWS

A conflict is a definite no, after which the row is sent again. An answer that never came, or that says so
itself, leaves the outcome open: that row is not sent again.
"""

import random
import sys
import time

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, RESTError
from pyiceberg.table import Table
from requests.exceptions import RequestException

from tests.interop.pyiceberg_client import numbered
from tests.interop.writers import write

_CONFLICTS = 300
_PATIENCE_S = 90.0  # for a server that is being started again


def main(uri: str, warehouse: str, name: str, first: int, rows: int) -> None:
    catalog = load_catalog("arco", type="rest", uri=uri, warehouse=warehouse)
    write(first, rows, lambda each: _append(catalog, name, each))


def _append(catalog: Catalog, name: str, each: int) -> str:
    for _ in range(_CONFLICTS):
        table = _load(catalog, name)
        try:
            table.append(numbered(each))
        except CommitFailedException:
            time.sleep(random.uniform(0, 0.05))
        except (CommitStateUnknownException, RequestException):
            return "unknown"
        else:
            return "done"
    raise SystemExit(f"row {each} met {_CONFLICTS} conflicts in a row")


def _load(catalog: Catalog, name: str) -> Table:
    until_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return catalog.load_table(name)
        except (RequestException, RESTError):
            if time.monotonic() > until_s:
                raise
            time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
