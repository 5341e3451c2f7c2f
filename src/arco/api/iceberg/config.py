"""The handler of `/v1/config`: what is served here, and how a client is to speak."""

from collections.abc import Iterable

import msgspec

from arco.access.authorization import Operation
from arco.api.iceberg.desk import IcebergDesk, answer
from arco.api.iceberg.queries import ConfigQuery
from arco.api.route import AnyRoute, Call, Reply
from arco.catalog.location import LOCATION_ROOT
from arco.core import json

ROOT = "/iceberg"
SEPARATOR = "%1F"  # between the levels of a namespace, escaped as the specification wants it


# Served for clients that ask all the same. One that reads it in the list would expect credentials, and
# Arco vends none.
_NOT_LISTED = frozenset({Operation.ICEBERG_LOAD_CREDENTIALS})


class CatalogConfig(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What a client reads first."""

    defaults: dict[str, str]
    overrides: dict[str, str]
    endpoints: tuple[str, ...]
    idempotency_key_lifetime: str


class Config:
    """The configuration of clients."""

    def __init__(self, desk: IcebergDesk) -> None:
        self._desk = desk
        self._endpoints: tuple[str, ...] = ()
        self._lifetime = iso_duration(desk.services.key_life_ms)

    def set_routes(self, routes: Iterable[AnyRoute]) -> None:
        """Tell what is served; it is known only once all routes are made, this one included."""
        listed = (route for route in routes if route.operation not in _NOT_LISTED)
        self._endpoints = tuple(endpoint(route) for route in listed)

    async def get(self, call: Call[ConfigQuery, None]) -> Reply:
        """How to speak to a catalog."""
        row = await self._desk.iceberg.warehouse(call.query.warehouse or None)
        return answer(
            CatalogConfig(
                defaults=self._defaults(),
                # The id, so that a client goes on when the catalog gets another name.
                overrides={"prefix": row.catalog_id, "namespace-separator": SEPARATOR},
                endpoints=self._endpoints,
                idempotency_key_lifetime=self._lifetime,
            )
        )

    def _defaults(self) -> dict[str, str]:
        """Where managed tables lie, and how to reach that place."""
        told = json.decode(self._desk.iceberg.desk.config, dict[str, str])
        return {**told, LOCATION_ROOT: self._desk.services.location_root}


def endpoint(route: AnyRoute) -> str:
    """A route as the specification writes it."""
    return f"{route.method} {route.path.removeprefix(ROOT)}"


def iso_duration(ms: int) -> str:
    """So many milliseconds as ISO 8601 has them, rounded down to seconds."""
    hours, rest = divmod(ms // 1000, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = ((hours, "H"), (minutes, "M"), (seconds, "S"))
    return "PT" + ("".join(f"{count}{unit}" for count, unit in parts if count) or "0S")
