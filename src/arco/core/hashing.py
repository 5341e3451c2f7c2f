"""Hashes of stored bytes, which `sha256sum` can verify."""

import hashlib


def sha256_hex(data: bytes) -> str:
    """The SHA-256 of `data` in lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()
