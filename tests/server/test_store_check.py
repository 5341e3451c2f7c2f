"""Every check can fail: each of these stores does one operation wrong."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from obstore.store import MemoryStore

from arco.core.errors import Denied, NotFound, Unavailable
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.server.finding import DoctorFinding
from arco.server.store_check import StoreCheck
from arco.storage.backend import Meta
from arco.storage.cloud import CloudBackend


class KeepsWhatIsDeleted(CloudBackend):
    async def delete(self, key: str) -> None:
        pass


class ListsBackwards(CloudBackend):
    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        for meta in reversed([meta async for meta in super().list(prefix, after)]):
            yield meta


class ListsLate(CloudBackend):
    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        async for meta in super().list(prefix, after):
            if "list" not in meta.key:
                yield meta


class ReadsOtherBytes(CloudBackend):
    async def get_range(self, key: str, start: int, length: int) -> bytes:
        return await super().get_range(key, start + 1, length)


class HasPhantoms(CloudBackend):
    async def get(self, key: str) -> bytes:
        try:
            return await super().get(key)
        except NotFound:
            return b"{}"


class LetsEveryRacerWin(CloudBackend):
    async def create(self, key: str, body: bytes) -> None:
        await (super().put(key, body) if "race-" in key else super().create(key, body))


class IsAheadOfTime(CloudBackend):
    async def head(self, key: str) -> Meta:
        meta = await super().head(key)
        return replace(meta, modified_ms=meta.modified_ms + 120_000)


class MayNeitherDeleteNorList(CloudBackend):
    async def delete(self, key: str) -> None:
        raise Denied("no")

    def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        raise Denied("no")


class IsNotThere(CloudBackend):
    async def get(self, key: str) -> bytes:
        raise Unavailable("nobody home")


async def _findings(kind: type[CloudBackend], runtime: Runtime) -> dict[str, DoctorFinding]:
    backend = kind(MemoryStore(), runtime)
    findings = [
        each async for each in StoreCheck(backend, runtime, Scope(), "somewhere").findings()
    ]
    assert len({each.name for each in findings}) == len(findings)
    return {each.name: each for each in findings}


def _named(findings: dict[str, DoctorFinding], status: str) -> list[str]:
    return [name for name, finding in findings.items() if finding.status == status]


async def test_a_correct_store_passes_every_check(runtime: Runtime) -> None:
    findings = await _findings(CloudBackend, runtime)

    assert _named(findings, "ok") == list(findings)
    assert len(findings) == 11


@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        (KeepsWhatIsDeleted, "delete"),
        (ListsBackwards, "listing"),
        (ListsLate, "listing"),
        (ReadsOtherBytes, "range read"),
        (LetsEveryRacerWin, "race"),
        (HasPhantoms, "missing get"),
    ],
)
async def test_an_incorrect_store_fails_the_check_of_that_operation(
    kind: type[CloudBackend], broken: str, runtime: Runtime
) -> None:
    findings = await _findings(kind, runtime)

    assert broken in _named(findings, "failed")
    assert findings[broken].next_step


async def test_clocks_that_are_two_minutes_apart_are_a_warning(runtime: Runtime) -> None:
    findings = await _findings(IsAheadOfTime, runtime)

    assert _named(findings, "warning") == ["clock"]
    assert 100_000 < findings["clock"].measured["apart_ms"] < 130_000
    assert "NTP" in findings["clock"].next_step


async def test_an_identity_that_may_not_delete_leaves_few_probes_and_a_warning(
    runtime: Runtime,
) -> None:
    findings = await _findings(MayNeitherDeleteNorList, runtime)

    assert _named(findings, "failed") == []
    assert _named(findings, "warning") == ["delete", "listing", "clean-up"]
    assert findings["durable create"].figure.endswith("of 5")


async def test_a_store_that_does_not_answer_gets_no_further_checks(runtime: Runtime) -> None:
    findings = await _findings(IsNotThere, runtime)

    assert list(findings) == ["answers", "requests"]
    assert findings["answers"].figure == "nobody home, at somewhere"
    assert findings["requests"].measured["requests"] <= 3
