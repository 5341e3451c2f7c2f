"""Made-up requests of Iceberg's clients: mostly right ones, with something wrong in many of them."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st

from tests.api.iceberg.warehouse import SCHEMA, VERSION

Json = Any

# Half of the names exist: made-up ones alone would find nothing but 404.
NAMES = st.one_of(
    st.sampled_from(["t", "u", "v", "db", "x"]),
    st.text(max_size=12),
    st.sampled_from(["..", "a/b", "a%2Fb", "a.b", "*", "\0", "\u202e", "n" * 300, "\U0001f4a5"]),
)
NAMESPACES = st.one_of(
    st.just(["db"]), st.just(["db", "inner"]), st.lists(NAMES, min_size=1, max_size=3)
)
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, 2**63, 10**30]),
)
WRONG: st.SearchStrategy[Json] = st.one_of(
    st.none(),
    st.booleans(),
    NUMBERS,
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
)
PLACES = st.one_of(
    st.sampled_from(
        ["", " ", "/", "file:///", "file:///etc", "s3://b/p", "HERE", "HERE/x", "HERE/../x", "x"]
    ),
    st.text(max_size=20),
)
PROPERTIES = st.dictionaries(
    st.one_of(
        st.text(max_size=8),
        st.sampled_from(
            [
                *("format-version", "write.metadata.path", "write.data.path", "arco.x", "comment"),
                *("write.metadata.compression-codec", "write.metadata.previous-versions-max"),
                *("commit.retry.num-retries", "version.history.num-entries"),
            ]
        ),
    ),
    st.one_of(st.text(max_size=8), st.sampled_from(["1", "2", "3", "gzip", "true", "-1"]), PLACES),
    max_size=3,
)
PLAIN = st.sampled_from(
    [
        *("boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz"),
        *("string", "uuid", "binary", "fixed[4]", "decimal(9,2)", "decimal(99,2)", "variant"),
        *("timestamp_ns", "unknown", "geometry", "geography(x, spherical)", "nope", ""),
    ]
)


def _nested(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.one_of(
        st.fixed_dictionaries(
            {
                "type": st.just("list"),
                "element-id": st.integers(10, 99),
                "element-required": st.booleans(),
                "element": inner,
            }
        ),
        st.fixed_dictionaries(
            {
                "type": st.just("map"),
                "key-id": st.integers(10, 99),
                "key": inner,
                "value-id": st.integers(100, 199),
                "value-required": st.booleans(),
                "value": inner,
            }
        ),
    )


TYPES = st.recursive(PLAIN, _nested, max_leaves=4)
FIELDS = st.fixed_dictionaries(
    {
        "id": st.integers(1, 9),
        "name": st.sampled_from(["id", "note", "a", "b.c", ""]),
        "required": st.booleans(),
        "type": TYPES,
    },
    optional={"doc": st.text(max_size=5), "initial-default": WRONG, "write-default": WRONG},
)
SCHEMAS = st.one_of(
    st.just(SCHEMA),
    st.fixed_dictionaries(
        {"type": st.just("struct"), "fields": st.lists(FIELDS, max_size=4)},
        optional={
            "schema-id": NUMBERS,
            "identifier-field-ids": st.lists(st.integers(0, 4), max_size=2),
        },
    ),
)
TRANSFORMS = st.sampled_from(
    ["identity", "bucket[4]", "truncate[0]", "day", "hour", "void", "bucket[]", "nope"]
)
SPECS = st.fixed_dictionaries(
    {
        "fields": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.sampled_from(["p", "q", "id", ""]),
                    "transform": TRANSFORMS,
                    "source-id": st.integers(0, 3),
                },
                optional={"field-id": NUMBERS},
            ),
            max_size=2,
        )
    },
    optional={"spec-id": NUMBERS},
)
ORDERS = st.fixed_dictionaries(
    {
        "order-id": st.integers(-1, 2),
        "fields": st.lists(
            st.fixed_dictionaries(
                {
                    "transform": TRANSFORMS,
                    "source-id": st.integers(0, 3),
                    "direction": st.sampled_from(["asc", "desc", "up"]),
                    "null-order": st.sampled_from(["nulls-first", "nulls-last", "x"]),
                }
            ),
            max_size=2,
        ),
    }
)
SNAPSHOTS = st.fixed_dictionaries(
    {
        "snapshot-id": NUMBERS,
        "timestamp-ms": st.one_of(NUMBERS, st.just(1_800_000_000_000)),
        "manifest-list": st.one_of(st.just("HERE/metadata/m.avro"), PLACES),
        "summary": st.just({"operation": "append"}),
    },
    optional={
        "sequence-number": NUMBERS,
        "parent-snapshot-id": NUMBERS,
        "schema-id": NUMBERS,
        "first-row-id": NUMBERS,
        "added-rows": NUMBERS,
        "manifests": st.lists(PLACES, max_size=2),
        "from-the-future": WRONG,
    },
)
STATISTICS = st.fixed_dictionaries(
    {
        "snapshot-id": NUMBERS,
        "statistics-path": st.one_of(st.just("HERE/metadata/s.puffin"), PLACES),
        "file-size-in-bytes": NUMBERS,
        "file-footer-size-in-bytes": NUMBERS,
        "blob-metadata": st.lists(WRONG, max_size=1),
    }
)
VERSIONS = st.fixed_dictionaries(
    {
        **{key: st.just(value) for key, value in VERSION.items()},
        "version-id": NUMBERS,
        "schema-id": st.integers(-1, 1),
        "representations": st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(["sql", "SQL", "python"]),
                    "sql": st.text(max_size=9),
                    "dialect": st.sampled_from(["spark", "trino", ""]),
                }
            ),
            max_size=2,
        ),
    }
)


def _action(name: str, **members: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    named = {key.replace("_", "-"): strategy for key, strategy in members.items()}
    return st.fixed_dictionaries({"action": st.just(name), **named})


REFS = st.sampled_from(["main", "side", ""])
UPDATES = st.one_of(
    _action("assign-uuid", uuid=st.one_of(st.uuids().map(str), st.text(max_size=5))),
    _action("upgrade-format-version", format_version=NUMBERS),
    _action("add-schema", schema=SCHEMAS),
    _action("set-current-schema", schema_id=NUMBERS),
    _action("add-spec", spec=SPECS),
    _action("set-default-spec", spec_id=NUMBERS),
    _action("add-sort-order", sort_order=ORDERS),
    _action("set-default-sort-order", sort_order_id=NUMBERS),
    _action("add-snapshot", snapshot=SNAPSHOTS),
    _action(
        "set-snapshot-ref",
        ref_name=REFS,
        type=st.sampled_from(["branch", "tag", "x"]),
        snapshot_id=NUMBERS,
    ),
    _action("remove-snapshots", snapshot_ids=st.lists(NUMBERS, max_size=3)),
    _action("remove-snapshot-ref", ref_name=REFS),
    _action("set-location", location=PLACES),
    _action("set-properties", updates=PROPERTIES),
    _action("remove-properties", removals=st.lists(st.text(max_size=5), max_size=3)),
    _action("set-statistics", statistics=STATISTICS),
    _action("remove-statistics", snapshot_id=NUMBERS),
    _action("set-partition-statistics", partition_statistics=STATISTICS),
    _action("remove-partition-statistics", snapshot_id=NUMBERS),
    _action("remove-partition-specs", spec_ids=st.lists(NUMBERS, max_size=3)),
    _action("remove-schemas", schema_ids=st.lists(NUMBERS, max_size=3)),
    _action("add-encryption-key", encryption_key=WRONG),
    _action("remove-encryption-key", key_id=st.text(max_size=3)),
    _action("add-view-version", view_version=VERSIONS),
    _action("set-current-view-version", view_version_id=NUMBERS),
    _action("nope"),
)
REQUIREMENTS = st.one_of(
    st.fixed_dictionaries({"type": st.just("assert-create")}),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["assert-table-uuid", "assert-view-uuid"]),
            "uuid": st.text(max_size=5),
        }
    ),
    st.fixed_dictionaries(
        {"type": st.just("assert-ref-snapshot-id"), "ref": REFS, "snapshot-id": NUMBERS}
    ),
    st.fixed_dictionaries(
        {"type": st.just("assert-current-schema-id"), "current-schema-id": NUMBERS}
    ),
    st.fixed_dictionaries({"type": st.text(max_size=5)}),
)
COMMITS = st.fixed_dictionaries(
    {"updates": st.lists(UPDATES, max_size=4)},
    optional={"requirements": st.lists(REQUIREMENTS, max_size=2), "more": WRONG},
)
IDENTIFIERS = st.fixed_dictionaries({"namespace": NAMESPACES, "name": NAMES})
QUERIES = st.dictionaries(
    st.sampled_from(["pageToken", "pageSize", "snapshots", "parent", "purgeRequested", "x"]),
    st.one_of(st.text(max_size=6), st.sampled_from(["", "1", "true", "all", "refs", "db"])),
    max_size=2,
)
HEADERS = st.dictionaries(
    st.sampled_from(["If-None-Match", "Idempotency-Key", "Accept-Encoding", "User-Agent"]),
    st.one_of(
        st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), max_size=10),
        st.uuids().map(str),
        st.sampled_from(["*", '"a", W/"b"', "gzip", "gzip;q=0"]),
    ),
    max_size=2,
)


@dataclass(frozen=True)
class Request:
    """One request below the prefix of a catalog."""

    method: str
    parts: tuple[str, ...]
    body: Json = None
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return "/".join(quote(part, safe="") for part in self.parts)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """A request of any client: the route first, then what it needs, then something wrong with it."""
    level = "\x1f".join(draw(NAMESPACES))
    table, view = draw(NAMES), draw(NAMES)
    method, parts, bodies = draw(st.sampled_from(_routes(level, table, view)))
    body = None if bodies is None else draw(bodies)
    if isinstance(body, dict) and body and draw(st.integers(0, 3)) == 0:
        spoiled = draw(st.sampled_from(sorted(body)))
        body = {**body, spoiled: draw(WRONG)}
    return Request(method, parts, body, draw(QUERIES), draw(HEADERS))


def _routes(
    level: str, table: str, view: str
) -> list[tuple[str, tuple[str, ...], st.SearchStrategy[Json] | None]]:
    space = ("namespaces", level)
    rename = st.fixed_dictionaries({"source": IDENTIFIERS, "destination": IDENTIFIERS})
    registered = st.fixed_dictionaries(
        {"name": NAMES, "metadata-location": PLACES}, optional={"overwrite": st.booleans()}
    )
    new = st.fixed_dictionaries(
        {"name": NAMES, "schema": SCHEMAS},
        optional={
            "location": PLACES,
            "partition-spec": SPECS,
            "write-order": ORDERS,
            "stage-create": st.booleans(),
            "properties": PROPERTIES,
        },
    )
    new_view = st.fixed_dictionaries(
        {"name": NAMES, "schema": SCHEMAS, "view-version": VERSIONS, "properties": PROPERTIES},
        optional={"location": PLACES},
    )
    spaces = st.fixed_dictionaries({"namespace": NAMESPACES}, optional={"properties": PROPERTIES})
    changed = st.fixed_dictionaries(
        {}, optional={"updates": PROPERTIES, "removals": st.lists(st.text(max_size=5), max_size=3)}
    )
    several = st.fixed_dictionaries(
        {
            "table-changes": st.lists(
                st.tuples(IDENTIFIERS, COMMITS).map(lambda two: {"identifier": two[0], **two[1]}),
                max_size=3,
            )
        }
    )
    commit, reads = COMMITS, ("GET", "HEAD")
    return [
        ("GET", ("namespaces",), None),
        ("POST", ("namespaces",), spaces),
        *((method, space, None) for method in (*reads, "DELETE")),
        ("POST", (*space, "properties"), changed),
        *(("GET", (*space, kind), None) for kind in ("tables", "views", "functions")),
        ("POST", (*space, "tables"), new),
        ("POST", (*space, "views"), new_view),
        *((method, (*space, "tables", table), None) for method in (*reads, "DELETE")),
        *((method, (*space, "views", view), None) for method in (*reads, "DELETE")),
        *(("POST", (*space, "tables", table), commit) for _ in range(8)),
        *(("POST", (*space, "views", view), commit) for _ in range(3)),
        ("POST", (*space, "tables", table, "unregister"), None),
        ("POST", (*space, "tables", table, "metrics"), WRONG),
        ("GET", (*space, "tables", table, "credentials"), None),
        ("GET", (*space, "functions", table), None),
        ("POST", (*space, "register"), registered),
        ("POST", (*space, "register-view"), registered),
        ("POST", ("tables", "rename"), rename),
        ("POST", ("views", "rename"), rename),
        *(("POST", ("transactions", "commit"), several) for _ in range(2)),
    ]
