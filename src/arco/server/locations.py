"""Locations outside the store that tables may have: `--allow-location`."""

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.core.errors import Invalid
from arco.server.settings import split_words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from arco.core.runtime import Runtime
    from arco.storage.address import Address
    from arco.storage.backend import Backend
    from arco.storage.external_location import ExternalLocation
    from arco.storage.roles import Role

# How engines write az://container/prefix?account=name.
_AZURE = re.compile(
    r"(?:abfss?|wasbs?)://([^/@:]+)@([a-z0-9]+)\.(?:dfs|blob)\.core\.windows\.net(/.*)?\Z"
)
_AZURE_HOST = "dfs.core.windows.net"


@Parameter(name="*")
@dataclass(frozen=True)
class AllowedLocations:
    """The locations outside the store that tables may have.

    Parameters
    ----------
    allow_location
        A folder outside the store in which tables may be, such as s3://bucket/prefix or file:///dir;
        may be repeated.
    """

    allow_location: Annotated[
        tuple[str, ...],
        Parameter(metavar="URL", negative="", show_default=False, env_var_split=split_words),
    ] = ()

    def check(self) -> None:
        """Reject what is no URL of a location."""
        self.urls()

    def urls(self) -> tuple[str, ...]:
        """The prefixes of allowed table locations, or `Invalid`."""
        return tuple(dict.fromkeys(url for each in self.allow_location for url in _prefixes(each)))

    def open(
        self,
        runtime: "Runtime",
        *,
        role: "Role | None" = None,
        fsync: bool = True,
        watched: "Callable[[Backend], Backend] | None" = None,
    ) -> "Mapping[str, ExternalLocation]":
        """The locations by their URLs, opened for a role (by default that of the API)."""
        from arco.storage.external_location import open_external_location
        from arco.storage.roles import Role

        opened: dict[str, ExternalLocation] = {}
        for each in self.allow_location:
            outside = open_external_location(
                _address(each), runtime, role=role or Role.API, fsync=fsync, watched=watched
            )
            opened |= dict.fromkeys(_prefixes(each), outside)
        return opened


def _address(text: str) -> "Address":
    from arco.storage.address import Address, parse_address

    if not text:
        raise Invalid("--allow-location needs a value: leave it out to declare nothing")
    try:
        address = parse_address(_as_store(text))
    except Invalid as problem:
        raise Invalid(f"--allow-location {text[:80]}: {problem}") from problem
    if address.scheme == "memory":
        raise Invalid("--allow-location takes a place that engines can read, not memory")
    if address.scheme == "file":
        return Address("file", os.path.normpath(address.location))
    return address


def _as_store(text: str) -> str:
    """The URL of a location as engines write it, as the URL of a store."""
    if azure := _AZURE.match(text):
        container, account, path = azure.groups()
        return f"az://{container}{path or ''}?account={account}"
    return re.sub(r"\Afile:/(?!/)", "file:///", re.sub(r"\As3[an]://", "s3://", text))


def _prefixes(text: str) -> tuple[str, ...]:
    """The prefixes of table locations in a location. Engines use them as written: nothing is escaped."""
    from arco.catalog.location import canonical

    address = _address(text)
    if address.scheme == "file":
        return (canonical(f"file://{address.location}"),)
    below = f"{address.location}/{address.prefix}"
    account = address.options.get("account")
    if address.scheme == "az" and account:
        host = f"{address.location}@{account}.{_AZURE_HOST}"
        return canonical(f"az://{below}"), canonical(f"abfss://{host}/{address.prefix}")
    return (canonical(f"{address.scheme}://{below}"),)
