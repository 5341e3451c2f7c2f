"""Opening Spark for a project: with the catalogs that it needs, and without the jar where it needs none."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from arco.flow.spark.jars import iceberg_jars
from arco.flow.spark.session import LOCAL, MEMORY, CatalogDoor, open_session


@dataclass(frozen=True)
class Opening:
    """How Spark is opened, as often as that is needed.

    `catalogs` tells which catalogs have Iceberg tables; it is asked when Spark is opened, since a table may
    have come meanwhile.
    """

    url: str
    token: str | None
    catalogs: Callable[[], Iterable[str]]
    master: str = LOCAL
    settings: Mapping[str, str] = field(default_factory=dict)
    memory: str = MEMORY

    def __call__(self) -> SparkSession:
        names = sorted(self.catalogs())
        return open_session(
            self.master,
            catalogs=[CatalogDoor(name, self.url, self.token) for name in names],
            jars=iceberg_jars() if names else None,
            settings=self.settings,
            memory=self.memory,
        )
