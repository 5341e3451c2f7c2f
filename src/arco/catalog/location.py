"""Locations of tables: validation, and the normalised place names by which they are compared.

A managed location is derived from the table's id, so it is never shared or reused. It is relative to the
workspace (`warehouse/{table id}/`), so that a copied store is a complete catalog. An external location may
be anywhere outside Arco's own root or, where locations were declared, below one of those.

Engines use a location as it is: to them `a%20b` is a folder of that name. A reader that unescapes it must
not end up elsewhere, so a path that changes its meaning by unescaping is refused. Engines also spell one
location in many ways: two locations overlap if and only if one place name is a prefix of the other, so
that overlaps are found without a scan.
"""

from collections.abc import Sequence
from unicodedata import normalize
from urllib.parse import unquote, urlsplit
from uuid import UUID

from arco.core.errors import Invalid

LOCATION_ROOT = (
    "arco.location-root"  # the property that sends clients the prefix of managed locations
)

_SCHEMES = frozenset(
    {"s3", "s3a", "s3n", "gs", "az", "abfs", "abfss", "wasb", "wasbs", "file", "hdfs", "r2", "oss"}
)
_WITH_CONTAINER_BEFORE_AT = frozenset({"abfs", "abfss", "wasb", "wasbs"})
# Schemes of engines that name the same store.
_SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "abfss", "wasbs": "abfss"}
_WAREHOUSE = "warehouse/"
_FILE_ROOT = "file:///"  # managed locations are compared like those of a lenient file system
_MAX_CHARACTERS = 2_048
_UNESCAPED = 2  # how often software between client and store may unescape a location


def managed_location(table_id: str) -> str:
    """The location of a managed table, relative to its workspace."""
    return f"warehouse/{table_id}/"


def check_location(
    location: str, own_roots: Sequence[str], *, declared: Sequence[str] | None = None
) -> str:
    """The normalised location of an external table, or `Invalid`.

    `declared` are the canonical locations below which tables are allowed; None allows any.
    """
    normalized = normalize_location(location)
    for root in own_roots:
        if overlap(normalized, root):
            raise Invalid(
                "this location belongs to Arco itself: leave the location out for a managed table"
            )
    if declared is not None and not canonical(location).startswith(tuple(declared)):
        raise undeclared(location)
    return normalized


def undeclared(location: str) -> Invalid:
    """The error for a location outside the declared ones."""
    return Invalid(
        f"{location} is neither in this catalog's warehouse nor in a declared location: leave "
        "the location out, or start Arco with --allow-location for its parent folder"
    )


def normalize_location(location: str) -> str:
    """`location` with its scheme in lower case and a trailing slash, or `Invalid`."""
    check_text(location)
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
    if parts.path and not parts.path.startswith("/"):
        raise Invalid(f"a location has two slashes after its scheme: {scheme}://")
    check_escapes(parts.path)
    path = parts.path.rstrip("/")
    return f"{scheme}://{parts.netloc}{path}/"


def canonical(location: str) -> str:
    """`location` in the canonical spelling of its store, so that equal locations are equal texts."""
    scheme, _, rest = normalize_location(location).partition("://")
    canonical_scheme = _SCHEME_ALIASES.get(scheme, scheme)
    if canonical_scheme == "abfss":
        bucket, _, path = rest.partition("/")
        rest = f"{bucket.lower().replace('.blob.core.', '.dfs.core.')}/{path}"
    return f"{canonical_scheme}://{rest}"


def overlap(one: str, other: str) -> bool:
    """Whether two locations may be the same, or one inside the other, for any engine."""
    one, other = (
        comparison_key(each if each.endswith("/") else f"{each}/") for each in (one, other)
    )
    return one.startswith(other) or other.startswith(one)


def check_text(location: str) -> None:
    """`Invalid` for text that cannot be a location."""
    if len(location) > _MAX_CHARACTERS or not location.isprintable() or "\\" in location:
        raise Invalid(f"a location is a URL of at most {_MAX_CHARACTERS} printable characters")


def check_escapes(path: str) -> None:
    """`Invalid` for a path that changes its meaning when it is unescaped."""
    decoded = path.rstrip("/")
    for _ in range(_UNESCAPED + 1):
        parts = decoded.split("/")[1:]
        if any(part in ("", ".", "..") for part in parts):
            raise Invalid("a location has no empty part, '.' or '..' in its path")
        if "\\" in decoded or not decoded.isprintable():
            raise Invalid("a location must not contain escaped backslashes or control characters")
        decoded, before = _unescape(decoded), decoded
    if decoded != before:
        raise Invalid(
            "the path of the location is percent-encoded more than once; write it unescaped"
        )


def _refuse_odd_bucket(scheme: str, netloc: str, host: str) -> None:
    """`Invalid` unless the part between scheme and path is just the name of a bucket."""
    if "%" in netloc:
        raise Invalid("the bucket of a location must not be percent-encoded")
    if "@" in netloc and (scheme not in _WITH_CONTAINER_BEFORE_AT or ":" in netloc):
        raise Invalid("a location must not contain credentials")
    if scheme == "file" and host:
        raise Invalid("a file location must not name a host: write file:///path")
    if scheme not in ("file", "hdfs") and not host:
        raise Invalid(f"the location lacks a bucket: write {scheme}://bucket/path")


def _unescape(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as problem:
        raise Invalid("the percent-encoded bytes of a location must be UTF-8") from problem


def comparison_key(location: str) -> str:
    """A normalised spelling for comparisons: locations that any engine may treat as equal are equal.

    Engines unescape, hosts ignore case, and some file systems ignore case and Unicode composition. The
    account of an Azure location is left out, since a container may be named without it.
    """
    scheme, _, rest = location.partition("://")
    host, slash, path = rest.partition("/")
    canonical_scheme = _SCHEME_ALIASES.get(scheme, scheme)
    if canonical_scheme in ("az", "abfss"):
        canonical_scheme, host = "az", host.partition("@")[0]
    while (unescaped := unquote(path)) != path:
        path = unescaped
    if canonical_scheme == "file":
        path = normalize("NFC", normalize("NFC", path).casefold())
    return f"{canonical_scheme}://{host.lower()}{slash}{path}"


def is_managed(location: str) -> bool:
    """Whether a location is relative to the workspace."""
    return location.startswith(_WAREHOUSE)


def check_attached(location: str, own_roots: Sequence[str]) -> str:
    """The normalised location of an attached table, or `Invalid`."""
    if not is_managed(location):
        return check_location(location, own_roots)
    check_text(location)
    check_escapes("/" + location)
    if not is_id(managed_by(location) or "") or "?" in location or "#" in location:
        raise Invalid("a location in the workspace is warehouse/, the id of a table, and a path")
    return location.rstrip("/") + "/"


def managed_by(location: str) -> str | None:
    """The id of the table whose managed location this is."""
    return location.removeprefix(_WAREHOUSE).split("/")[0] if is_managed(location) else None


def is_id(text: str) -> bool:
    """Whether a text can be the id of an object: a UUID in lower case."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def place_name(location: str) -> str:
    """The place name of a validated location."""
    normalized = comparison_key(_FILE_ROOT + location if is_managed(location) else location)
    return normalized.removeprefix(_FILE_ROOT if is_managed(location) else "").rstrip("/") + "/"


def at_or_above(location: str) -> list[str]:
    """A location, as a place name, and all locations that contain it, outermost first."""
    scheme, mark, rest = location.rpartition("://")
    parts = rest.removesuffix("/").split("/")
    return [scheme + mark + "/".join(parts[:depth]) + "/" for depth in range(1, len(parts) + 1)]
