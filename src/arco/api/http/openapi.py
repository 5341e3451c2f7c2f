"""The OpenAPI 3.1 document, made from the table of routes and its types, and the page that shows it.

Docstrings and constraints of the types become descriptions, so changing one changes the document.
"""

import re
from collections.abc import Iterable
from importlib.resources import files
from types import UnionType
from typing import Any, get_args

import msgspec

from arco import __version__
from arco.access.authorization import PUBLIC_OPERATIONS
from arco.api.http.problem import CONTENT_TYPE as PROBLEM_TYPE
from arco.api.http.problem import PROBLEM_TYPES, TITLES, ProblemDocument
from arco.api.http.reply import JSON, Reply
from arco.api.http.request import NAME_PATTERN, Call, QueryParams
from arco.api.http.route import AnyRoute, ResponseSpec
from arco.core.errors import Invalid
from arco.core.hashing import sha256_hex

Schema = dict[str, Any]

# Nothing from elsewhere, nothing inline, and no page may frame it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_FILES = {
    "docs": ("docs.html", "text/html; charset=utf-8"),
    "docs.css": ("docs.css", "text/css; charset=utf-8"),
    "docs.js": ("docs.js", "text/javascript; charset=utf-8"),
}
_REF = "#/components/schemas/{name}"
_GROUPS = frozenset({"catalogs", "schemas", "tables", "views", "columns"})
_ALWAYS = (400, 403, 414, 431, 500, 503)
_WITH_BODY = (408, 413, 415)

_ABOUT = """\
Catalogs hold schemas; schemas hold schemas, tables and views, which have columns. Every object has a
stable id.

* **Schemas in a URL**: levels joined by the character 0x1F, escaped as `%1F`: `raw%1Feurope`.
* **Time travel**: `as_of` takes a manifest number, a commit's ULID or a time with its zone.
* **Safe retries**: send an `Idempotency-Key` with a change, and the same key when you repeat it.
* **Lost updates**: send an object's `ETag` in `If-Match` when you change it.
* **Paging**: give `next_page_token` back as `page_token`; all pages are of one moment.
* **Errors** are RFC 9457 problem documents; `code` is stable, `next_step` says what to do.
"""

_PATH_NAMES = {
    "catalog": ("The catalog's name.", "default"),
    "schema": ("The levels of the schema, joined by 0x1F.", "raw\x1feurope"),
    "table": ("The table's name.", "orders"),
    "view": ("The view's name.", "open_orders"),
    "column": ("The column's name.", "amount"),
    "id": ("The object's id, a UUID.", "0197a2c4-58f0-7cc1-8a53-1f0a3c6f2b11"),
    "number": ("The commit's number.", "17"),
    "pipeline": ("The pipeline's id.", "orders_daily"),
    "execution": ("The id of a run.", "run-7"),
    "run_id": ("The id of a run.", "01K0B3Q4N5RJ6Y7Z8A9BCDEFGH"),
    "task": ("The key of a task; escape its slashes as %2F.", "silver.orders@ds=2026-01-10"),
    "attempt_id": ("The id of an attempt at a task.", "9f86d081884c7d659a2feaa0c55ad015"),
    "table_id": ("The table's id.", "0197a2c4-58f0-7cc1-8a53-1f0a3c6f2b11"),
    "domain": ("The domain: `catalog`.", "catalog"),
}
_NAMED: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
_SHAPES: dict[str, Schema] = {
    "schema": {"type": "string", "minLength": 1},
    "task": {"type": "string", "minLength": 1, "maxLength": 4_096},
    "catalog": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": NAME_PATTERN},
    "table": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": NAME_PATTERN},
    "view": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": NAME_PATTERN},
    "id": {"type": "string", "format": "uuid"},
    "number": {"type": "string", "pattern": "^[0-9]{1,18}$"},
}


def openapi(routes: tuple[AnyRoute, ...]) -> Schema:
    """The document that describes `routes`."""
    types = list(_types(routes))
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_of = dict(zip(map(repr, types), schemas, strict=True))
    queries = {route.query.__name__ for route in routes}
    paths: Schema = {}
    for route in routes:
        operation = _operation(route, schema_of)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
        if route.method == "GET":
            paths[route.path]["head"] = _head_operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Arco",
            "version": __version__,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(_tag(route) for route in routes)],
        "paths": paths,
        "components": {
            "schemas": {name: components[name] for name in sorted(components.keys() - queries)},
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": "`arco token mint` makes one; without it where `--auth none` is set.",
                }
            },
        },
    }


def _types(routes: Iterable[AnyRoute]) -> Iterable[Any]:
    types: dict[str, Any] = {repr(ProblemDocument): ProblemDocument}
    for route in routes:
        bodies = [each for response in route.responses for each in _alternatives(response.body)]
        for each in [*bodies, *(route.body.types if route.body else ()), route.query]:
            types.setdefault(repr(each), each)
    return types.values()


def _alternatives(body: Any) -> tuple[Any, ...]:
    """The types of a body that may be one of several; None has none."""
    if body is None:
        return ()
    return get_args(body) if isinstance(body, UnionType) else (body,)


def _any_of(types: Iterable[Any], schema_of: dict[str, Schema]) -> Schema:
    schemas = [schema_of[repr(each)] for each in types]
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _operation(route: AnyRoute, schema_of: dict[str, Schema]) -> Schema:
    operation: Schema = {
        "operationId": _operation_id(route),
        "tags": [_tag(route)],
        "summary": route.summary.rstrip("."),
        "x-arco-operation": route.operation.value,
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_headers(route)],
        "responses": {
            **{str(each.status): _response(route, each, schema_of) for each in route.responses},
            **{str(status): _problem(status) for status in _problems(route)},
        },
        "security": [] if route.operation in PUBLIC_OPERATIONS else [{"bearer": []}, {}],
    }
    if route.body is not None:
        shape = _any_of(route.body.types, schema_of)
        media: Schema = {"schema": shape, "example": route.body.example}
        operation["requestBody"] = {
            "required": not route.body.optional,
            "content": {
                "application/json": media,
                **{other: _as_text(route.body.example) for other in route.body.other_types},
            },
        }
    return operation


def _as_text(example: object) -> Schema:
    """A body of lines: each element of the JSON array on its own line."""
    values = example if isinstance(example, list) else [example]
    lines = "\n".join(msgspec.json.encode(value).decode() for value in values)
    return {"schema": {"type": "string"}, "example": lines}


def _operation_id(route: AnyRoute) -> str:
    """The operation's name, or one made from the path where several routes are one operation."""
    if route.operation in PUBLIC_OPERATIONS:
        return re.sub(r"[^a-z]+", "_", route.path.removeprefix("/api/v1/")).strip("_")
    return route.operation.value


def _tag(route: AnyRoute) -> str:
    if route.operation in PUBLIC_OPERATIONS:
        return "service"
    parts = [part for part in route.path.split("/")[3:] if not part.startswith("{")]
    groups = [part for part in parts if part in _GROUPS]
    return groups[-1] if groups else parts[0]


def _path_parameters(route: AnyRoute) -> list[Schema]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PATH_NAMES[name][0],
            "schema": _SHAPES.get(name, _NAMED),
            "example": _PATH_NAMES[name][1],
        }
        for name in re.findall(r"{(\w+)}", route.path)
    ]


def _query_parameters(route: AnyRoute) -> list[Schema]:
    query: type[QueryParams] = route.query
    (_,), components = msgspec.json.schema_components([query], ref_template=_REF)
    schema = components[query.__name__]
    required = schema.get("required", [])
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            **({"description": inner["description"]} if "description" in inner else {}),
            "schema": inner,
        }
        for name, inner in (
            (name, _without_null(each)) for name, each in schema["properties"].items()
        )
    ]


def _without_null(schema: Schema) -> Schema:
    """A parameter is present or absent; a URL has no null."""
    if "anyOf" not in schema:
        return {
            key: value for key, value in schema.items() if key != "default" or value is not None
        }
    (inner,) = [each for each in schema["anyOf"] if each != {"type": "null"}]
    return dict(inner)


def _headers(route: AnyRoute) -> list[Schema]:
    headers = []
    if route.takes_key:
        headers.append(
            _header(
                "Idempotency-Key",
                "The same key for the same change, however often it is sent.",
                {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
            )
        )
    if route.takes_if_match:
        headers.append(
            _header(
                "If-Match",
                "Change it only if this is still its ETag.",
                {"type": "string", "pattern": '^(\\*|"[0-9]{1,18}")$'},
            )
        )
    if any(answer.status == 304 for answer in route.responses):
        headers.append(
            _header("If-None-Match", "Answer 304 if it has this ETag.", {"type": "string"})
        )
    return headers


def _header(name: str, text: str, schema: Schema) -> Schema:
    return {"name": name, "in": "header", "required": False, "description": text, "schema": schema}


def _response(route: AnyRoute, spec: ResponseSpec, schema_of: dict[str, Schema]) -> Schema:
    response: Schema = {"description": spec.description, "headers": {"X-Request-Id": _TEXT}}
    if route.has_etag and route.operation not in PUBLIC_OPERATIONS:
        response["headers"] |= {"ETag": _TEXT}
    if spec.status == 201 and route.body is not None and "columns" not in route.path:
        response["headers"] |= {"Location": _TEXT}
    if spec.body is not None:
        schema = _any_of(_alternatives(spec.body), schema_of)
        response["content"] = {spec.content_type: {"schema": schema}}
        for other in spec.other_types:
            response["content"][other] = {"schema": {"type": "string", "format": "binary"}}
    return response


_TEXT: Schema = {"schema": {"type": "string"}}


def _problems(route: AnyRoute) -> list[int]:
    statuses = {*_ALWAYS, *route.problems}
    if route.body is not None:
        statuses |= {*_WITH_BODY}
    if route.mutates:
        statuses |= {504, 507}
    if route.runs_sql:
        statuses |= {429}
    if route.operation not in PUBLIC_OPERATIONS:
        statuses |= {401}
    return sorted(statuses)


def _problem(status: int) -> Schema:
    titles = dict.fromkeys(
        [each.title for each in PROBLEM_TYPES if each.status == status]
        + ([TITLES[status]] if status in TITLES else [])
    )
    response: Schema = {
        "description": ", or: ".join(titles),
        "content": {PROBLEM_TYPE: {"schema": {"$ref": _REF.format(name="ProblemDocument")}}},
    }
    if status in (429, 503):
        response["headers"] = {"Retry-After": {"schema": {"type": "string", "pattern": "^[0-9]+$"}}}
    if status == 401:
        response["headers"] = {"WWW-Authenticate": _TEXT}
    return response


def _head_operation(operation: Schema) -> Schema:
    """The same operation without response bodies."""
    responses = {
        status: {key: value for key, value in response.items() if key != "content"}
        for status, response in operation["responses"].items()
    }
    return {**operation, "operationId": f"head_{operation['operationId']}", "responses": responses}


class DocsPages:
    """The OpenAPI document, and a page that shows it without the internet."""

    def __init__(self) -> None:
        self._document = b""
        folder = files("arco.api") / "static"
        self._files = {
            name: ((folder / file).read_bytes(), content_type)
            for name, (file, content_type) in _FILES.items()
        }

    def set_document(self, document: bytes) -> None:
        """Set the document once all routes, these among them, are declared."""
        self._document = document

    async def openapi(self, _call: Call[QueryParams, None]) -> Reply:
        """The OpenAPI document of this API."""
        if not self._document:
            raise Invalid("the document was never set")
        return Reply(200, self._document, JSON, headers={"ETag": _etag(self._document)})

    async def docs(self, call: Call[QueryParams, None]) -> Reply:
        """A page to read about the API and to try it."""
        body, content_type = self._files[call.path.rpartition(b"/")[2].decode()]
        headers = {
            "ETag": _etag(body),
            "Content-Security-Policy": POLICY,
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
        }
        return Reply(200, body, content_type, headers=headers)


def _etag(body: bytes) -> str:
    return f'"{sha256_hex(body)[:32]}"'
