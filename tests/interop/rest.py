"""A running Iceberg REST catalog, and how engines connect to it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from arco.cli.connect import CatalogEndpoint, SnippetEngine, snippet
from tests.cli.command import arco
from tests.cli.serving import Served, serving

URI = "ICEBERG_URI"
WAREHOUSE = "ICEBERG_WAREHOUSE"


@dataclass(frozen=True)
class Rest:
    """A catalog at `uri`. Tables may lie in the directory `outside`; `served` is our own server."""

    uri: str
    warehouse: str
    outside: Path
    served: Served | None = None

    def snippet(self, engine: SnippetEngine) -> str:
        """The lines that connect an engine; for our own server those that `arco connect` prints."""
        if self.served is not None:
            return self.served.done("connect", engine, "--warehouse", self.warehouse)
        endpoint = CatalogEndpoint("http://elsewhere", self.warehouse)
        return snippet(engine, endpoint).replace(endpoint.uri, self.uri)


def given_server(outside: Path) -> Rest | None:
    """The server that the environment names, if it names one."""
    uri = os.environ.get(URI)
    if uri is None:
        return None
    return Rest(uri, os.environ.get(WAREHOUSE, "default"), outside)


@contextmanager
def our_catalog(root: Path, outside: Path, *flags: str) -> Iterator[Rest]:
    """`arco up` on a directory, with one declared location for external tables."""
    allowed = ("--allow-location", f"{outside.as_uri()}/")
    with serving(root, "--log-level", "warning", *allowed, *flags) as served:
        yield Rest(f"{served.url}/iceberg", "default", outside, served)
    # Whatever engines have done to it, all that is published is as it was published.
    run = arco("verify", "--all", "--root", root, *allowed)
    assert run.returncode == 0, run.stdout + run.stderr
