"""Signed URLs for stores that cannot sign their own: the local disk and memory.

A signature binds the path and the moment of expiry to the installation's key, nothing else, so one
URL serves GET and HEAD, with or without a range. The server of the URL calls `verify` and reads
the key that it returns; there is no other way from a URL to an object.
"""

import hmac
import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

from arco.core.errors import Denied, Invalid, Unavailable
from arco.core.runtime import Rng
from arco.storage.directory_tree import sync_directory
from arco.storage.key import check_key
from arco.storage.scratch import write_all

KEY_BYTES = 32
ROUTE = "/files/"

_REFUSED = "this link is not valid or has expired; request a new one"


class UrlSigner:
    """Signs and verifies URLs below one base address with one secret key."""

    def __init__(self, key: bytes, base_url: str) -> None:
        if len(key) < KEY_BYTES:
            raise Invalid(f"a signing key has at least {KEY_BYTES} bytes")
        self._key = key
        self._base = base_url.rstrip("/")
        self._base_path = urlsplit(self._base).path

    def sign(self, key: str, expires_at_s: int) -> str:
        """A URL for `key`, valid until that second."""
        path = ROUTE + quote(check_key(key), safe="/=")
        return f"{self._base}{path}?expires={expires_at_s}&signature={self._mac(key, expires_at_s)}"

    def verify(self, url: str, now_ms: int) -> str:
        """The key that `url` (whole, or path and query) gives access to, or `Denied`."""
        key, expires, signature = self._split(url)
        if not (
            expires.isascii() and expires.isdigit() and len(expires) <= 12 and signature.isascii()
        ):
            raise Denied(_REFUSED)
        genuine = hmac.compare_digest(self._mac(key, int(expires)), signature)
        if not genuine or now_ms >= int(expires) * 1000:
            raise Denied(_REFUSED)
        return check_key(key)

    def _split(self, url: str) -> tuple[str, str, str]:
        """Key, expiry and signature of a URL, not verified."""
        try:
            parts = urlsplit(url)
            query = parse_qs(parts.query, max_num_fields=8)
            [expires], [signature] = query["expires"], query["signature"]
        except (ValueError, KeyError) as problem:
            raise Denied(_REFUSED) from problem
        path = parts.path.removeprefix(self._base_path)
        if not path.startswith(ROUTE):
            raise Denied(_REFUSED)
        return unquote(path.removeprefix(ROUTE)), expires, signature

    def _mac(self, key: str, expires_at_s: int) -> str:
        message = f"arco-get-1\n{expires_at_s}\n{key}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key, message, "sha256").hexdigest()


def installation_key(path: Path, rng: Rng) -> bytes:
    """The key stored at `path`, created on first use and readable only by its owner."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _make_key(path, rng)
        if path.stat().st_mode & 0o077:
            raise Denied(
                "the installation's key can be read by others: chmod 600, or delete it to create a new one"
            )
        return path.read_bytes()
    except OSError as problem:
        raise Unavailable(f"the installation's key cannot be used: {problem.strerror}") from problem


def _make_key(path: Path, rng: Rng) -> None:
    scratch = path.with_name(f"{path.name}.{rng.randbytes(8).hex()}")
    fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        write_all(fd, rng.randbytes(KEY_BYTES))
        os.fsync(fd)
        with suppress(FileExistsError):
            os.link(scratch, path)  # of two processes that start together, one wins
        sync_directory(path.parent)  # all URLs depend on it, so it must survive a crash
    finally:
        os.close(fd)
        scratch.unlink()
