"""Keys: the grammar for names of stored objects, which every store can hold.

A key is relative, with `/` between its parts, and is checked here before a backend gets it, because
backends differ: some unescape, some follow `..`, some drop a leading slash (law 10).
"""

from functools import lru_cache

from arco.core.errors import Invalid

# S3 and GCS hold 1,024 bytes, of which the prefix of a store's address may take a quarter.
_MAX_KEY_BYTES = 768
MAX_ROOT_BYTES = 256
_MAX_PART_BYTES = 255  # ext4, xfs, apfs
_SHOWN = 80
_MAX_CHECKED_KEYS = 4_096  # valid keys that are cached: the heads of chains are read repeatedly


@lru_cache(_MAX_CHECKED_KEYS)
def check_key(key: str) -> str:
    """`key` unchanged if every store can hold it, else `Invalid`."""
    size = _utf8_bytes(key)
    if not 0 < size <= _MAX_KEY_BYTES:
        raise Invalid(f"a key has 1 to {_MAX_KEY_BYTES} bytes, this one has {size}")
    if "\\" in key or not key.isprintable():
        raise Invalid(f"a key has no backslash and no control characters: {_show(key)}")
    for part in key.split("/"):
        if part in ("", ".", ".."):
            raise Invalid(f"a key has no empty part, '.' or '..': {_show(key)}")
        if len(part) > _MAX_PART_BYTES // 4 and _utf8_bytes(part) > _MAX_PART_BYTES:
            raise Invalid(f"a part of a key has at most {_MAX_PART_BYTES} bytes: {_show(key)}")
    return key


def check_prefix(prefix: str) -> str:
    """`prefix` unchanged if it is empty or a whole number of parts with a closing slash."""
    if prefix == "":
        return prefix
    if not prefix.endswith("/"):
        raise Invalid(f"a prefix ends with '/', or it would match its neighbours: {_show(prefix)}")
    check_key(prefix[:-1])
    return prefix


def _utf8_bytes(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as problem:
        raise Invalid("a key is valid Unicode, without lone surrogates") from problem


def _show(key: str) -> str:
    return repr(key if len(key) <= _SHOWN else key[:_SHOWN] + "…")
