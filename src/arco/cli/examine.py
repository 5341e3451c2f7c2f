"""From an address to findings: the machine first, then the store behind the address."""

from collections.abc import AsyncIterator
from pathlib import Path

from arco.cli.checkup import Checkup
from arco.cli.finding import Finding, Status, failed, trouble
from arco.cli.machine import GONE_AFTER_A_RESTART, check_file_system, check_java, check_python
from arco.cli.settings import describe
from arco.core.errors import ArcoError, Invalid
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.address import Address
from arco.storage.open import open_backend

_NO_ACCOUNT = failed(
    "opens",
    "the client could not be set up: the URL does not name the storage account",
    "Add ?account=NAME to it, or set AZURE_STORAGE_ACCOUNT_NAME.",
)


async def examine(
    address: Address, scope: Scope, runtime: Runtime, *, fsync: bool
) -> AsyncIterator[Finding]:
    """Every check in turn; where the store cannot be opened, that is the last one."""
    yield check_python()
    yield check_java()
    is_local = address.scheme == "file"
    try:
        if is_local:
            yield check_file_system(Path(address.place))
        elif address.scheme == "memory":
            yield Finding("memory", Status.NOTE, "of this process", GONE_AFTER_A_RESTART)
        backend = open_backend(address, runtime, fsync=fsync)
    except ArcoError as problem:
        if (
            address.scheme == "az"
            and "account" not in address.options
            and isinstance(problem, Invalid)
        ):
            yield _NO_ACCOUNT
        else:
            yield trouble("opens", problem, is_local=is_local)
        return
    async for finding in Checkup(backend, runtime, scope, describe(address)).findings():
        yield finding
