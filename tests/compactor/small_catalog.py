"""A small catalog with commits, drops, a merge and an orphan mark, to verify."""

import re

from arco.catalog.ddl import AddColumns, DropTable
from arco.compactor.kept_manifests import orphan_mark_at
from arco.compactor.verification import Anchor, verify
from arco.compactor.verification_report import VerificationReport
from arco.core.hashing import sha256_hex
from arco.fold.tier1 import DOMAIN
from arco.storage.entry import checksummed
from arco.storage.roles import Role
from tests.catalog.catalog_setup import SCOPE, CatalogSetup, open_setup, spec, started, t
from tests.compactor.dict_backend import DictBackend

HEAD_NUMBER = 12  # the number of its head
HEAD = f"manifests/{DOMAIN}/head.json"


_built: dict[str, bytes] = {}  # built once, as its stop takes a second


async def small_catalog() -> tuple[CatalogSetup, dict[str, bytes]]:
    """A catalog that was closed properly, and its objects, open to changes."""
    objects = DictBackend()
    objects.stored.update(_built or await _build())
    return open_setup(objects), objects.stored


async def _build() -> dict[str, bytes]:
    objects = DictBackend()
    setup = await started(open_setup(objects))
    await setup.table("a", "x int")
    await setup.table("b", "x int", "y string")
    await setup.do(DropTable(target=t("a")))
    await setup.compactor.merge()
    await setup.schema("u")
    await setup.do(AddColumns(target=t("b"), columns=(spec("z date"),)))
    await setup.compactor.merge()
    await setup.compactor.mark_orphans(orphan_mark_at(setup.clock.now_ms()))
    await setup.table("c", "x int")
    await setup.table("d", "x int")
    await setup.do(DropTable(target=t("c")))
    await setup.close()
    _built.update(objects.stored)
    return _built


def full(path: str) -> str:
    return SCOPE.prefix + path


def manifest_path(number: int) -> str:
    return f"manifests/{DOMAIN}/{number:020d}.json"


async def check(
    setup: CatalogSetup,
    *,
    everything: bool = True,
    role: Role = Role.JANITOR,
    expect: Anchor | None = None,
) -> VerificationReport:
    return await verify(setup.store(role), DOMAIN, everything=everything, expect=expect)


def paths(stored: dict[str, bytes], pattern: str) -> list[str]:
    """The paths in the workspace that a pattern matches, in order."""
    below = (key.removeprefix(SCOPE.prefix) for key in sorted(stored))
    return [path for path in below if re.fullmatch(pattern, path)]


def resealed(raw: bytes) -> bytes:
    """An object that was changed and given a checksum that fits."""
    return checksummed(raw[: raw.rindex(b',"checksum":"')] + b"}")


def anchor(stored: dict[str, bytes], number: int) -> Anchor:
    return number, sha256_hex(stored[full(manifest_path(number))])
