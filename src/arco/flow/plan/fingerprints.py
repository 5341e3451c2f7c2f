"""Fingerprints: what the data that a task read were, in one text that is another one if they were others.

Planning compares the fingerprint of today with the one that was recorded when a partition was made, so both
must come from here.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from arco.core import json
from arco.events.partition_key import parse_partition_key

UNKNOWN = "-"  # in place of a material that nobody knows


def outside_material(
    key: str, version: str | None, materials: Mapping[str, str | None]
) -> str | None:
    """The material of a partition of a table that something else fills.

    Where its partitions are told apart by the same columns, one without a material is empty. Where they
    are not, all that can be said of a partition is the version of the whole table.
    """
    found = materials.get(key)
    if found is not None:
        return found
    some = next(iter(materials), None)
    return None if some is not None and _columns(some) == _columns(key) else version


def material_digest(materials: Iterable[tuple[str, str | None]]) -> str:
    """The digest of the partitions that one input reads, from the key and the material of each."""
    return digest_of_lines(material_line(key, material) for key, material in sorted(materials))


def material_line(key: str, material: str | None) -> bytes:
    """What one partition adds to the digest of an input."""
    return f"{key}\0{material or UNKNOWN}\n".encode()


def digest_of_lines(lines: Iterable[bytes]) -> str:
    """The digest of an input whose lines are sorted by key already."""
    return hashlib.sha256(b"".join(lines)).hexdigest()


NOTHING_READ = digest_of_lines(())


def input_fingerprint(code: str, inputs: Iterable[tuple[str, str]]) -> str:
    """The fingerprint of code and of the inputs: the id of each table, or else its name, and its digest.

    An input of which nothing is read says nothing: the first day of a table that reads its own day before
    is the same before there is such a table and after.
    """
    read = sorted(pair for pair in inputs if pair[1] != NOTHING_READ)
    return hashlib.sha256(json.encode((code, read))).hexdigest()


def fingerprinting(code: str, tables: Sequence[str]) -> Callable[[Sequence[str]], str]:
    """`input_fingerprint` for many partitions that read the same tables, from their digests."""
    order = sorted(range(len(tables)), key=tables.__getitem__)
    between = json.encode((code, [(tables[at], "") for at in order])).split(b'""]')
    plain = len(set(tables)) < len(tables) or len(between) != len(tables) + 1

    def told(digests: Sequence[str]) -> str:
        if plain or NOTHING_READ in digests:
            return input_fingerprint(code, zip(tables, digests, strict=True))
        hashed = hashlib.sha256(between[0])
        for at, after in zip(order, between[1:], strict=True):
            hashed.update(b'"%b"]%b' % (digests[at].encode(), after))
        return hashed.hexdigest()

    return told


def _columns(key: str) -> set[str] | None:
    values = parse_partition_key(key)
    return None if values is None else set(values)
