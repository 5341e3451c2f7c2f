"""The OpenAPI 3.1 document, made from the table of routes and its types; nothing in it is written twice."""

import re
from collections.abc import Iterable
from types import UnionType
from typing import Any, get_args

import msgspec

from arco import __version__
from arco.access.authorization import PUBLIC_OPERATIONS
from arco.api.problem import CONTENT_TYPE as PROBLEM_TYPE
from arco.api.problem import KINDS, TITLES, Problem
from arco.api.query_params import Query
from arco.api.route import Answered, AnyRoute
from arco.api.wire import NAME_PATTERN

Schema = dict[str, Any]

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

_NAMES = {
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
    kinds = list(_kinds(routes))
    described, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    schema_of = dict(zip(map(_identity, kinds), described, strict=True))
    paths: Schema = {}
    for route in routes:
        operation = _operation(route, schema_of)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
        if route.method == "GET":
            paths[route.path]["head"] = _headed(operation)
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
            "schemas": _tidied(components),
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


def _kinds(routes: Iterable[AnyRoute]) -> Iterable[Any]:
    seen: dict[str, Any] = {_identity(Problem): Problem}
    for route in routes:
        held = [kind for answer in route.answers for kind in _alternatives(answer.body)]
        for kind in [*held, *(route.sent.kinds if route.sent else ()), route.query]:
            seen.setdefault(_identity(kind), kind)
    return seen.values()


def _alternatives(kind: Any) -> tuple[Any, ...]:
    """The types of a body that may be one of several; None has none."""
    if kind is None:
        return ()
    return get_args(kind) if isinstance(kind, UnionType) else (kind,)


def _shape(kinds: Iterable[Any], schema_of: dict[str, Schema]) -> Schema:
    shapes = [schema_of[_identity(kind)] for kind in kinds]
    return shapes[0] if len(shapes) == 1 else {"anyOf": shapes}


def _identity(kind: Any) -> str:
    return repr(kind)


def _operation(route: AnyRoute, schema_of: dict[str, Schema]) -> Schema:
    operation: Schema = {
        "operationId": _operation_id(route),
        "tags": [_tag(route)],
        "summary": route.says.rstrip("."),
        "x-arco-operation": route.operation.value,
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_headers(route)],
        "responses": {
            **{str(each.status): _answer(route, each, schema_of) for each in route.answers},
            **{str(status): _problem(status) for status in _problems(route)},
        },
        "security": [] if route.operation in PUBLIC_OPERATIONS else [{"bearer": []}, {}],
    }
    if route.sent is not None:
        shape = _shape(route.sent.kinds, schema_of)
        media: Schema = {"schema": shape, "example": route.sent.example}
        operation["requestBody"] = {
            "required": not route.sent.optional,
            "content": {
                "application/json": media,
                **{kind: _as_text(route.sent.example) for kind in route.sent.also},
            },
        }
    return operation


def _as_text(example: object) -> Schema:
    """A body of lines: what JSON would have as an array, each element on a line of its own."""
    each = example if isinstance(example, list) else [example]
    lines = "\n".join(msgspec.json.encode(line).decode() for line in each)
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
    known = [part for part in parts if part in _GROUPS]
    return known[-1] if known else parts[0]


def _path_parameters(route: AnyRoute) -> list[Schema]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _NAMES[name][0],
            "schema": _SHAPES.get(name, _NAMED),
            "example": _NAMES[name][1],
        }
        for name in re.findall(r"{(\w+)}", route.path)
    ]


def _query_parameters(route: AnyRoute) -> list[Schema]:
    kind: type[Query] = route.query
    (_,), components = msgspec.json.schema_components([kind], ref_template=_REF)
    shape = components[kind.__name__]
    required = shape.get("required", [])
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            **({"description": inner["description"]} if "description" in inner else {}),
            "schema": inner,
        }
        for name, inner in (
            (name, _without_null(each)) for name, each in shape["properties"].items()
        )
    ]


def _without_null(schema: Schema) -> Schema:
    """A parameter is there or it is not; there is no null in a URL."""
    if "anyOf" not in schema:
        return {
            key: value for key, value in schema.items() if key != "default" or value is not None
        }
    (inner,) = [each for each in schema["anyOf"] if each != {"type": "null"}]
    return dict(inner)


def _headers(route: AnyRoute) -> list[Schema]:
    headers = []
    if route.keyed:
        headers.append(
            _header(
                "Idempotency-Key",
                "The same key for the same change, however often it is sent.",
                {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
            )
        )
    if route.matched:
        headers.append(
            _header(
                "If-Match",
                "Change it only if this is still its ETag.",
                {"type": "string", "pattern": '^(\\*|"[0-9]{1,18}")$'},
            )
        )
    if any(answer.status == 304 for answer in route.answers):
        headers.append(
            _header("If-None-Match", "Answer 304 if it has this ETag.", {"type": "string"})
        )
    return headers


def _header(name: str, says: str, schema: Schema) -> Schema:
    return {"name": name, "in": "header", "required": False, "description": says, "schema": schema}


def _answer(route: AnyRoute, answered: Answered, schema_of: dict[str, Schema]) -> Schema:
    answer: Schema = {"description": answered.says, "headers": {"X-Request-Id": _TEXT}}
    if route.tagged and route.operation not in PUBLIC_OPERATIONS:
        answer["headers"] |= {"ETag": _TEXT}
    if answered.status == 201 and route.sent is not None and "columns" not in route.path:
        answer["headers"] |= {"Location": _TEXT}
    if answered.body is not None:
        schema = _shape(_alternatives(answered.body), schema_of)
        answer["content"] = {answered.content_type: {"schema": schema}}
        for other in answered.also:
            answer["content"][other] = {"schema": {"type": "string", "format": "binary"}}
    return answer


_TEXT: Schema = {"schema": {"type": "string"}}


def _problems(route: AnyRoute) -> list[int]:
    found = {*_ALWAYS, *route.problems}
    if route.sent is not None:
        found |= {*_WITH_BODY}
    if route.mutates:
        found |= {504, 507}
    if route.queries:
        found |= {429}
    if route.operation not in PUBLIC_OPERATIONS:
        found |= {401}
    return sorted(found)


def _problem(status: int) -> Schema:
    titles = dict.fromkeys(
        [kind.title for kind in KINDS if kind.status == status]
        + ([TITLES[status]] if status in TITLES else [])
    )
    answer: Schema = {
        "description": ", or: ".join(titles),
        "content": {PROBLEM_TYPE: {"schema": {"$ref": _REF.format(name="Problem")}}},
    }
    if status in (429, 503):
        answer["headers"] = {"Retry-After": {"schema": {"type": "string", "pattern": "^[0-9]+$"}}}
    if status == 401:
        answer["headers"] = {"WWW-Authenticate": _TEXT}
    return answer


def _headed(operation: Schema) -> Schema:
    """The same without bodies."""
    responses = {
        status: {key: value for key, value in answer.items() if key != "content"}
        for status, answer in operation["responses"].items()
    }
    return {**operation, "operationId": f"head_{operation['operationId']}", "responses": responses}


def _tidied(components: dict[str, Schema]) -> dict[str, Schema]:
    return {name: shape for name, shape in sorted(components.items()) if not name.endswith("Query")}
