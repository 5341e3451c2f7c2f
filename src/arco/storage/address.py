"""Addresses: the URL of a store, parsed and checked.

`memory://`, `file:///dir` or a plain path, `s3://bucket/prefix`, `gs://bucket/prefix` and
`az://container/prefix`, with options in the query. A URL has no secrets: they come from the variables
of each cloud or from the identity of the machine.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from arco.core.errors import Invalid
from arco.storage.key import MAX_ROOT_BYTES, check_prefix

_OPTIONS: dict[str, frozenset[str]] = {
    "memory": frozenset(),
    "file": frozenset(),
    "s3": frozenset({"endpoint", "region", "path_style"}),
    "gs": frozenset({"endpoint"}),
    "az": frozenset({"endpoint", "account"}),
}
_INCOMPLETE_URL = re.compile(r"(s3|gs|az|file|memory):")
_SECRETS = ("key", "secret", "token", "password", "sas", "credential")


@dataclass(frozen=True)
class Address:
    """The location of a store."""

    scheme: str
    location: str  # a directory, bucket or container
    prefix: str = ""
    options: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """The address for messages and logs; it has no secrets."""
        path = f"/{self.prefix.rstrip('/')}" if self.prefix else ""
        return f"{self.scheme}://{self.location}{path}"


def parse_address(text: str) -> Address:
    """`text` as an address, or `Invalid` with what is wrong and how to write it."""
    if "://" not in text:
        if not text or "\0" in text or _INCOMPLETE_URL.match(text):
            raise Invalid("a store is a directory or a URL such as s3://bucket/prefix")
        return Address("file", str(Path(text).absolute()))
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as problem:
        raise Invalid("the store's URL cannot be parsed") from problem
    if parts.scheme not in _OPTIONS:
        schemes = ", ".join(f"{scheme}://" for scheme in _OPTIONS)
        raise Invalid(f"unknown kind of store {parts.scheme[:20]!r}: use a directory or {schemes}")
    if parts.username or parts.password or port or parts.fragment:
        raise Invalid("a store's URL has no user, password, port or fragment")
    options = _options(parts.scheme, parts.query)
    _check_endpoint(options.get("endpoint"))
    if parts.scheme == "file":
        return _file_address(parts.netloc, unquote(parts.path))
    if parts.scheme == "memory":
        return Address("memory", parts.netloc)
    if not parts.netloc:
        raise Invalid(f"{parts.scheme}:// needs the name of a bucket or container")
    prefix = unquote(parts.path).strip("/")
    if len(prefix.encode("utf-8", "replace")) >= MAX_ROOT_BYTES:
        raise Invalid(f"the prefix of a store has less than {MAX_ROOT_BYTES} bytes")
    return Address(
        parts.scheme, parts.netloc, check_prefix(prefix + "/") if prefix else "", options
    )


def _check_endpoint(endpoint: str | None) -> None:
    if endpoint is None:
        return
    try:
        parts = urlsplit(endpoint)
        is_http = parts.scheme in ("http", "https") and bool(parts.hostname)
        good = is_http and not (parts.username or parts.password or parts.query or parts.fragment)
    except ValueError:
        good = False
    if not good:
        raise Invalid("an endpoint is a URL such as https://host:port, without user and password")


def _file_address(host: str, path: str) -> Address:
    if host not in ("", "localhost"):
        raise Invalid("file:// takes an absolute path: file:///dir")
    if not path or "\0" in path:
        raise Invalid("file:// needs a directory: file:///dir")
    return Address("file", path)


def _options(scheme: str, query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name in _OPTIONS[scheme]:
            continue
        if any(secret in name.lower() for secret in _SECRETS):
            raise Invalid(
                f"a URL has no secrets ({name[:20]!r}): set the variables of the cloud, "
                "such as AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_KEY"
            )
        allowed = ", ".join(sorted(_OPTIONS[scheme])) or "none"
        raise Invalid(f"unknown option {name[:20]!r} of {scheme}:// (known: {allowed})")
    if options.get("path_style", "true") not in ("true", "false"):
        raise Invalid("path_style is true or false")
    return options
