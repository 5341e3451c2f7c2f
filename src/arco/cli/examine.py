"""From an address to findings: the machine first, then the store behind the address."""

from collections.abc import AsyncIterator
from pathlib import Path

from arco.cli.checkup import Checkup
from arco.cli.finding import Finding, trouble
from arco.cli.machine import check_file_system, check_java, check_python
from arco.core.errors import ArcoError
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.address import Address
from arco.storage.open import open_backend


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
        backend = open_backend(address, runtime, fsync=fsync)
    except ArcoError as problem:
        yield trouble("opens", problem, is_local=is_local)
        return
    async for finding in Checkup(backend, runtime, scope).findings():
        yield finding
