"""Input fingerprints: a hash of a task's code and of the data that it read.

Planning compares the current fingerprint with the one that was recorded when a partition was made, so both
must be computed here.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from arco.core import json
from arco.events.partition_key import parse_partition_key

UNKNOWN = "-"  # in place of a material that is not recorded


def outside_material(
    key: str, version: str | None, materials: Mapping[str, str | None]
) -> str | None:
    """The material of a partition of a source.

    If the source is partitioned by the same columns, a partition without a material is empty. Otherwise
    the version of the table stands for each partition.
    """
    recorded = materials.get(key)
    if recorded is not None:
        return recorded
    some = next(iter(materials), None)
    return None if some is not None and _columns(some) == _columns(key) else version


def material_digest(materials: Iterable[tuple[str, str | None]]) -> str:
    """The digest of the partitions that are read of one input, from their keys and materials."""
    return digest_lines(material_line(key, material) for key, material in sorted(materials))


def material_line(key: str, material: str | None) -> bytes:
    """The line of one partition in the digest of an input."""
    return f"{key}\0{material or UNKNOWN}\n".encode()


def digest_lines(lines: Iterable[bytes]) -> str:
    """The digest of an input from its lines, sorted by key."""
    return hashlib.sha256(b"".join(lines)).hexdigest()


NOTHING_READ = digest_lines(())


def input_fingerprint(code: str, inputs: Iterable[tuple[str, str]]) -> str:
    """The fingerprint of the code and of the inputs: the id or name of each table, and its digest.

    An input of which nothing is read does not count: the fingerprint of the first day of a table that
    reads its own previous day must not change when the table is created.
    """
    read = sorted(pair for pair in inputs if pair[1] != NOTHING_READ)
    return hashlib.sha256(json.encode((code, read))).hexdigest()


def fingerprint_function(code: str, tables: Sequence[str]) -> Callable[[Sequence[str]], str]:
    """`input_fingerprint` for many partitions that read the same tables, from their digests."""
    order = sorted(range(len(tables)), key=tables.__getitem__)
    between = json.encode((code, [(tables[at], "") for at in order])).split(b'""]')
    plain = len(set(tables)) < len(tables) or len(between) != len(tables) + 1

    def fingerprint(digests: Sequence[str]) -> str:
        if plain or NOTHING_READ in digests:
            return input_fingerprint(code, zip(tables, digests, strict=True))
        hashed = hashlib.sha256(between[0])
        for at, after in zip(order, between[1:], strict=True):
            hashed.update(b'"%b"]%b' % (digests[at].encode(), after))
        return hashed.hexdigest()

    return fingerprint


def _columns(key: str) -> set[str] | None:
    values = parse_partition_key(key)
    return None if values is None else set(values)
