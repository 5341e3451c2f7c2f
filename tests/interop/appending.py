"""A writer with PyIceberg: appends a row at a time and prints how each of them ended.

    python -m tests.interop.appending URI WAREHOUSE TABLE FIRST ROWS

A conflict is a definite no, after which the row is sent again. An answer that never came, or that says so
itself, leaves the outcome open: that row is not sent again.
"""

import random
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, RESTError
from requests.exceptions import RequestException

from tests.interop.pyiceberg_client import numbered
from tests.interop.writers import write

T = TypeVar("T")

_CONFLICTS = 300
_PATIENCE_S = 90.0  # for a server that is being started again


def main(uri: str, warehouse: str, name: str, first: int, rows: int) -> None:
    settings = {"type": "rest", "uri": uri, "warehouse": warehouse}
    catalog = _patiently(lambda: load_catalog("arco", **settings))
    write(first, rows, lambda each: _append(catalog, name, each))


def _append(catalog: Catalog, name: str, each: int) -> str:
    for _ in range(_CONFLICTS):
        table = _patiently(lambda: catalog.load_table(name))
        try:
            table.append(numbered(each))
        except CommitFailedException:
            time.sleep(random.uniform(0, 0.05))
        except (CommitStateUnknownException, RequestException):
            return "unknown"
        else:
            return "done"
    raise SystemExit(f"row {each} met {_CONFLICTS} conflicts in a row")


def _patiently(ask: Callable[[], T]) -> T:
    """What a server says that may just be starting again."""
    until_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return ask()
        except (RequestException, RESTError):
            if time.monotonic() > until_s:
                raise
            time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
