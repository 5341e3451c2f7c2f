"""Hashes. They are taken of stored bytes, so that anyone can check them with `sha256sum`."""

import hashlib


def sha256_hex(data: bytes) -> str:
    """The SHA-256 of `data` in lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()
