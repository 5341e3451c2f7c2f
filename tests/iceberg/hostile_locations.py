"""Hostile locations, made from pieces, and an independent reader that says where each could lead."""

import posixpath
import random
from urllib.parse import unquote

ROOT = "s3://lake/arco/tenant=default/workspace=default/"
STORE_ROOT = "s3://lake/arco/"
ALLOWED = ("s3://lake/", "s3://ext/sales/", "file:///data/ext/")
OWN = "018f-own"
OTHER = "018f-other"

STARTS = (
    *(f"{ROOT}warehouse/{OWN}", f"{ROOT}warehouse/{OTHER}", ROOT, STORE_ROOT, "s3://lake/arco"),
    *("s3://lake/", "s3://LAKE/arco/", "s3a://lake/arco/", "s3n://lake", "S3://lake/Arco"),
    *("s3://lake/arco/tenant=other/workspace=default/warehouse/x", "s3://lake/arco/tenant=default"),
    *("s3://ext/sales/", "s3://ext/sales2", "s3://ext/", "s3://EXT/sales/", "s3a://ext/sales/"),
    *("file:///data/ext/", "file:/data/ext/", "/data/ext/", "file:///data/ext2/", "file:/data/"),
    *("file:///DATA/ext/", "file://evil/data/ext/", "file://localhost/data/ext/", "file:data/ext/"),
    *("//data/ext/", "http://169.254.169.254/", "http://[::ffff:169.254.169.254]/", "gopher://x/"),
    *(
        "http://2852039166/latest/",
        "s3://user@lake/",
        "s3://key:secret@ext/sales/",
        "https://good@evil/",
    ),
    *(
        "memory://tenant=default/",
        "",
        "ext/sales",
        "s3://ext%2fsales/",
        "s3://ext:80/sales/",
        "s3:",
    ),
)
PIECES = (
    *(
        "t",
        "orders",
        "orders2",
        "metadata",
        "data",
        "warehouse",
        OWN,
        OTHER,
        "arco",
        "sales",
        "ext",
    ),
    *(
        "..",
        ".",
        "",
        "...",
        "%2e%2e",
        "%2E%2e",
        ".%2e",
        "%252e%252e",
        "%25252e%25252e",
        "%c0%ae%c0%ae",
    ),
    *(
        "%2f",
        "%2farco",
        "..%2f",
        "%5c..",
        "\\..",
        "\\",
        "%00",
        "\0",
        "\n",
        "%0a",
        "\u202e",
        "\u200f",
    ),
    *(
        "a b",
        "a%20b",
        "%61rco",
        "%2561rco",
        "ARCO",
        "a?b",
        "a#b",
        "%3f",
        "%23",
        "%ff",
        "*",
        "${x}",
        "'",
    ),
    *("\u00e9", "e\u0301", "\ud800", "x.", " x", "x;p=1", "tenant=default", "tenant=other", "100%"),
)


def location(rng: random.Random) -> str:
    """A location that a malicious client could send."""
    joined = rng.choice(("/", "/", "/", "//", "")).join(rng.choices(PIECES, k=rng.randrange(0, 5)))
    return rng.choice(STARTS) + rng.choice(("", "/")) + joined + rng.choice(("", "", "/", "//"))


def readings(text: str) -> set[str]:
    """Every place that some reader could take a location for: plain, unescaped, with dots resolved."""
    text = "file://" + text if text.startswith("/") else text
    scheme, _, rest = text.partition(":")
    rest = rest if rest.startswith("//") else "//" + rest
    resolved_locations = set()
    for _ in range(4):
        bucket, slash, path = rest[2:].replace("\\", "/").partition("/")
        resolved = posixpath.normpath("/" + path.partition("\0")[0])
        scheme_name = {"s3a": "s3", "s3n": "s3"}.get(scheme.lower(), scheme.lower())
        resolved_locations.add(
            f"{scheme_name}://{bucket}{resolved if slash else ''}".rstrip("/") + "/"
        )
        rest = unquote(rest)
    return resolved_locations


def leads_astray(text: str, *, folders: frozenset[str]) -> bool:
    """Whether any reading of a location is in our store but in none of these folders, or undeclared."""
    own = tuple(f"{ROOT}warehouse/{folder}/" for folder in folders)
    return any(not each.startswith(own) and _is_closed(each) for each in readings(text))


def _is_closed(location: str) -> bool:
    scheme, _, rest = location.partition("://")
    bucket, _, path = rest.partition("/")
    anyhow = f"{scheme}://{bucket.lower()}/{path}"  # some take a bucket's name in any case
    ours = anyhow.startswith(STORE_ROOT) or STORE_ROOT.startswith(anyhow)
    return ours or not location.startswith(ALLOWED)
