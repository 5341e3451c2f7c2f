"""Locations: where the files of a table are.

A managed table's place follows from its id, so no two tables ever share one and none is used again; it is
kept relative to the workspace, so that a copied bucket is a whole catalog. An external table says where it
is; it may be anywhere but in our own root.
"""

from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from arco.core.errors import Invalid

_SCHEMES = frozenset(
    {"s3", "s3a", "s3n", "gs", "az", "abfs", "abfss", "wasb", "wasbs", "file", "hdfs", "r2", "oss"}
)
_WITH_CONTAINER_BEFORE_AT = frozenset({"abfs", "abfss", "wasb", "wasbs"})
_LONGEST = 2_048
_UNESCAPED = 2  # how often somebody on the way may unescape a location


def managed_location(table_id: str) -> str:
    """The place of a managed table, relative to its workspace."""
    return f"warehouse/{table_id}/"


def check_location(location: str, own_roots: Sequence[str]) -> str:
    """`location` in one spelling if an external table may be there, else `Invalid`."""
    if len(location) > _LONGEST or not location.isprintable() or "\\" in location:
        raise Invalid(f"a location is a URL of at most {_LONGEST} printable characters")
    try:
        parts = urlsplit(location)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError as problem:
        raise Invalid("the location is not a URL") from problem
    scheme = parts.scheme.lower()
    if scheme not in _SCHEMES:
        raise Invalid(f"a location begins with one of {', '.join(sorted(_SCHEMES))}, then ://")
    if parts.query or parts.fragment or "?" in location or "#" in location:
        raise Invalid("a location has no query and no fragment")
    _refuse_odd_bucket(scheme, parts.netloc, host)
    _refuse_tricks(parts.path)
    path = parts.path.rstrip("/")
    spelled = f"{scheme}://{parts.netloc}{path}/"
    for root in own_roots:
        if _overlap(spelled, root):
            raise Invalid(
                "this place belongs to Arco itself: leave the location out for a managed table"
            )
    return spelled


def _refuse_odd_bucket(scheme: str, netloc: str, host: str) -> None:
    """What stands between the scheme and the path names a bucket, plainly, and no more."""
    if "%" in netloc:
        raise Invalid("a location names its bucket without escapes")
    if "@" in netloc and (scheme not in _WITH_CONTAINER_BEFORE_AT or ":" in netloc):
        raise Invalid("a location holds no credentials")
    if scheme == "file" and host:
        raise Invalid("a file location names no host: write file:///path")
    if scheme not in ("file", "hdfs") and not host:
        raise Invalid(f"a location names a bucket: {scheme}://bucket/path")


def _refuse_tricks(path: str) -> None:
    """A path that means another one once it is unescaped, however often, is refused."""
    seen = path
    for _ in range(_UNESCAPED + 1):
        parts = seen.rstrip("/").split("/")[1:]
        if any(part in ("", ".", "..") for part in parts) or "\x00" in seen or "\\" in seen:
            raise Invalid("a location has no empty part, '.' or '..' in its path")
        seen = unquote(seen)


def _overlap(one: str, other: str) -> bool:
    one, other = _unescaped(one), _unescaped(other.rstrip("/") + "/")
    return one.startswith(other) or other.startswith(one)


def _unescaped(location: str) -> str:
    """A spelling to compare by: engines unescape, once or twice, and hosts know no capitals."""
    scheme, _, rest = location.partition("://")
    host, slash, path = rest.partition("/")
    for _ in range(_UNESCAPED):
        path = unquote(path)
    return f"{scheme}://{host.lower()}{slash}{path}"
