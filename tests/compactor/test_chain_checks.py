"""Verification also checks the chains besides the manifests."""

import re
from collections import Counter
from collections.abc import Callable

import pytest

from arco.compactor.verification_report import ProblemKind
from tests.catalog.catalog_setup import CatalogSetup, new_table, open_setup, started
from tests.compactor.dict_backend import DictBackend
from tests.compactor.small_catalog import check, full

NUMBERS = r"(locks/catalog|sequence/catalog|_catalog/idempotency/../[0-9a-f]{64})/[0-9]+\.json"


async def lived() -> tuple[CatalogSetup, dict[str, bytes]]:
    """A workspace with several leases, streams and keys."""
    objects = DictBackend()
    setup = await started(open_setup(objects))
    for name in ("a", "b"):
        setup.api.lease.lost()
        await setup.api.do_once(new_table(name), f"key {name}")
    rival = setup.api_process()
    await rival.do(new_table("c"))
    await rival.committer.close()
    await setup.close()
    return setup, objects.stored


def flipped(raw: bytes) -> bytes:
    middle = len(raw) // 2
    return raw[:middle] + bytes([raw[middle] ^ 1]) + raw[middle + 1 :]


@pytest.mark.parametrize("spoil", [flipped, lambda raw: raw[:-1], lambda raw: b"{}"])
async def test_every_changed_number_is_named(spoil: Callable[[bytes], bytes]) -> None:
    setup, stored = await lived()
    keys = [key for key in stored if re.fullmatch(full(NUMBERS), key)]
    assert len(keys) >= 8
    assert (await check(setup)).checked.links >= len(keys)
    for key in keys:
        raw, stored[key] = stored[key], spoil(stored[key])
        problem = (await check(setup)).problem
        assert problem is not None
        assert (problem.kind, full(problem.path)) == (ProblemKind.LINK, key)
        stored[key] = raw
    assert (await check(setup)).ok


async def test_a_number_that_is_missing_below_another_is_named() -> None:
    setup, stored = await lived()
    folders = Counter(key.rpartition("/")[0] for key in stored if re.fullmatch(full(NUMBERS), key))
    long = [folder for folder, numbers in folders.items() if numbers > 1]
    assert len(long) >= 3
    for folder in long:
        first = min(key for key in stored if re.fullmatch(f"{re.escape(folder)}/0+[.]json", key))
        raw = stored.pop(first)
        problem = (await check(setup)).problem
        assert problem is not None
        assert full(problem.path) == first
        stored[first] = raw
