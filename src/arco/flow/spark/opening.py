"""Opening Spark for a project: with the catalogs and stores that it needs, and no jar that it does not."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from arco.flow.spark.jars import Jars, iceberg_jars
from arco.flow.spark.parcel import send_modules
from arco.flow.spark.session import LOCAL, MEMORY, CatalogDoor, open_session
from arco.flow.spark.stores import door_to
from arco.flow.worker.ports import LakeStore

_REGION = "AWS_REGION"


@dataclass(frozen=True)
class Needs:
    """What a project reads and writes: catalogs with Iceberg tables, and where tables of others lie."""

    catalogs: frozenset[str] = frozenset()
    store: LakeStore = field(default_factory=LakeStore)
    elsewhere: tuple[str, ...] = ()


@dataclass(frozen=True)
class Opening:
    """How Spark is opened, as often as that is needed.

    `needs` is asked when Spark is opened, since a table may have come meanwhile. So are `modules`, those of
    the project as they were loaded, which all machines get that work for Spark.
    """

    url: str
    token: str | None
    needs: Callable[[], Needs]
    master: str = LOCAL
    settings: Mapping[str, str] = field(default_factory=dict)
    memory: str = MEMORY
    modules: Callable[[], Mapping[str, bytes]] | None = None

    def __call__(self) -> SparkSession:
        needs = self.needs()
        door = door_to(needs.store, needs.elsewhere, self.settings, os.environ.get(_REGION))
        names = sorted(needs.catalogs)
        session = open_session(
            self.master,
            catalogs=[CatalogDoor(name, self.url, self.token, door.catalog) for name in names],
            jars=(iceberg_jars() if names else Jars()) + door.jars,
            settings={**door.settings, **self.settings},
            memory=self.memory,
        )
        if self.modules is not None:
            send_modules(session, self.modules())
        return session
