"""Tamper evidence: any change of a published object is found, and the object is named (figure 10)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from arco.catalog.manifest import FileRef
from arco.compactor.verification import verify
from arco.fold.tier1 import DOMAIN
from arco.storage.roles import Role
from tests.catalog.catalog_setup import CatalogSetup
from tests.compactor.small_catalog import full, manifest_path, paths, resealed, small_catalog
from tests.figures import Figure

POSITIONS = 4

KINDS = {
    "manifest": rf"manifests/{DOMAIN}/[0-9]+\.json",
    "commit": rf"commits/{DOMAIN}/.+",
    "index": rf"snapshots/{DOMAIN}/index/.+",
    "file": rf"snapshots/{DOMAIN}/all/.+",
}
IDS = rb'"((?:[0-9A-HJKMNP-TV-Z]{26})|(?:[0-9a-f]{8}-[0-9a-f-]{27}))"'


@dataclass(frozen=True)
class Tampering:
    """Something done to the store: the objects that are others afterwards, None for one that is gone."""

    description: str
    changed: dict[str, bytes | None]


def tamperings(stored: dict[str, bytes], alike: list[str]) -> Iterator[Tampering]:
    """All that can be done to each of some objects of one kind."""
    for at, path in enumerate(alike):
        raw = stored[full(path)]
        for position in spread(len(raw)):
            for bit in (0x01, 0x80):
                yield Tampering(f"flip {position}", {path: flipped(raw, position, bit)})
        yield Tampering("delete", {path: None})
        yield Tampering("empty", {path: b""})
        yield Tampering("truncate", {path: raw[:-1]})
        yield Tampering("behead", {path: raw[1:]})
        yield Tampering("append", {path: raw + b"\n"})
        other = alike[at - 1]
        if other != path:
            yield Tampering("swap", {path: stored[full(other)], other: raw})
            yield Tampering("copy", {path: stored[full(other)]})


def spread(size: int) -> list[int]:
    """Positions all over an object, both ends included."""
    return sorted({round(at * (size - 1) / (POSITIONS - 1)) for at in range(POSITIONS)})


def flipped(raw: bytes, position: int, bit: int) -> bytes:
    return raw[:position] + bytes([raw[position] ^ bit]) + raw[position + 1 :]


def forgeries(stored: dict[str, bytes]) -> Iterator[Tampering]:
    """Next numbers that the compactor has not made."""
    numbers = paths(stored, KINDS["manifest"])
    head, forged = stored[full(numbers[-1])], manifest_path(len(numbers))
    renumbered = head.replace(b'"number":%d,' % (len(numbers) - 1), b'"number":%d,' % len(numbers))
    parent = re.sub(rb'"parent_sha256":"[0-9a-f]{64}"', b'"parent_sha256":"%s"' % (b"0" * 64), head)
    yield Tampering("garbage as the next number", {forged: b"{}"})
    yield Tampering("the head again as the next number", {forged: head})
    yield Tampering("the head under the next number", {forged: resealed(renumbered)})
    yield Tampering("a next number of no parent", {forged: resealed(parent)})
    for number, path in enumerate(numbers[:-1]):
        later = stored[full(path)].replace(b'"fencing_token":', b'"fencing_token":1')
        yield Tampering(f"number {number} with a valid checksum", {path: resealed(later)})


async def undetected(
    setup: CatalogSetup,
    stored: dict[str, bytes],
    done: Iterator[Tampering],
    sound: set[FileRef] | None,
) -> tuple[int, list[str]]:
    """How many tamperings there were, and which of them were not detected, or not with the right object."""
    count, missed = 0, []
    for tampering in done:
        original_objects = {full(path): stored.get(full(path)) for path in tampering.changed}
        if all(stored.get(full(path)) == raw for path, raw in tampering.changed.items()):
            continue
        put(stored, {full(path): raw for path, raw in tampering.changed.items()})
        report = await verify(setup.store(Role.JANITOR), DOMAIN, everything=True, sound=sound)
        put(stored, original_objects)
        count += 1
        if report.ok or report.problem is None or report.problem.path not in tampering.changed:
            missed.append(f"{tampering.description} {list(tampering.changed)}: {report.problem}")
    return count, missed


def put(stored: dict[str, bytes], objects: dict[str, bytes | None]) -> None:
    for key, raw in objects.items():
        if raw is None:
            stored.pop(key, None)
        else:
            stored[key] = raw


async def test_a_change_of_one_published_object_is_found_and_the_object_named(
    figure: Figure,
) -> None:
    setup, stored = await small_catalog()
    sound: set[FileRef] = set()
    report = await verify(setup.store(Role.JANITOR), DOMAIN, everything=True, sound=sound)
    assert report.ok, report.problem
    alike = {kind: paths(stored, pattern) for kind, pattern in KINDS.items()}
    assert (
        sum(map(len, alike.values())) == len(paths(stored, "(manifests|commits|snapshots)/.+")) - 1
    )
    detected = {}
    for kind, objects in alike.items():
        count, missed = await undetected(setup, stored, tamperings(stored, objects), sound)
        assert not missed, "\n".join(missed[:20])
        detected[kind] = count
    count, missed = await undetected(setup, stored, forgeries(stored), sound)
    assert not missed, "\n".join(missed)
    detected["forgery"] = count
    total = sum(detected.values())
    each = ", ".join(f"{kind} {count}" for kind, count in detected.items())
    figure(f"tamper: {total} of {total} detected and named ({each})")


async def test_a_changed_id_in_an_event_that_a_commit_names_is_found(
    figure: Figure,
) -> None:
    setup, stored = await small_catalog()
    segments = paths(stored, rf"ledger/{DOMAIN}/.+")
    named_segments = segments[:-1]  # the last one is the seal, which no commit names

    def changes() -> Iterator[Tampering]:
        for at, path in enumerate(named_segments):
            raw = stored[full(path)]
            events = raw.index(b"\n")
            ids = [events + match.start(1) for match in re.finditer(IDS, raw[events:])]
            for start in ids[at % 4 :: 4]:  # others in the next segment
                yield Tampering("flip", {path: flipped(raw, start + 12, 0x02)})
            yield Tampering("delete", {path: None})
            yield Tampering("truncate", {path: raw[:-1]})
            yield Tampering("append", {path: raw + b"{}"})
            yield Tampering("no events", {path: raw[: events + 1]})
            yield Tampering("copy", {path: stored[full(named_segments[at - 1])]})

    count, missed = await undetected(setup, stored, changes(), None)
    assert not missed, "\n".join(missed[:20])
    figure(f"tamper: {count} of {count} changes of events detected and named")
