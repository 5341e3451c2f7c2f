"""Queries of assets, with the tables that they name replaced by views of exactly what may be read.

A view has a name of its own, so that it meets no name of the query. Where the query gives its table no
alias, the table's own name becomes one: `orders.amount` means the same as before.
"""

from collections.abc import Mapping

from arco.core.errors import Invalid
from arco.flow.define.sql_query import SqlToken, TableReference, find_table_references, tokenize
from arco.flow.define.table_name import base_name, qualified_name
from arco.flow.spark.choice import quoted

# What may stand behind a table, and is no alias of it.
_NO_ALIAS = frozenset(
    {
        *("WHERE", "GROUP", "ORDER", "HAVING", "JOIN", "INNER", "CROSS", "LEFT"),
        *("RIGHT", "FULL", "NATURAL", "SEMI", "ANTI", "ON", "USING", "UNION"),
        *("EXCEPT", "MINUS", "INTERSECT", "LIMIT", "OFFSET", "LATERAL", "PIVOT", "UNPIVOT"),
        *("WINDOW", "CLUSTER", "DISTRIBUTE", "SORT", "SELECT", "QUALIFY"),
    }
)
_SAMPLE = "TABLESAMPLE"  # an alias would have to stand behind it
_OF_ANOTHER_TIME = frozenset({"VERSION", "TIMESTAMP", "FOR"})


def with_views(sql: str, views: Mapping[str, str]) -> str:
    """The query with views, by the full names of the tables that they stand for.

    A table of which another version is asked for is left alone, and so is one that has no view.
    """
    parts, at = [], 0
    for named in find_table_references(sql):
        view = views.get(_full(named.name))
        if view is None or named.then.upper() in _OF_ANOTHER_TIME:
            continue
        parts += [sql[at : named.start], quoted(view), _alias(named)]
        at = named.end
    return "".join([*parts, sql[at:]]).rstrip().rstrip(";")


def with_values(sql: str, values: Mapping[str, str]) -> str:
    """The query with texts where it says `:ds`, as far as there are any.

    Spark has such parameters itself, but the parser of Iceberg's extension does not hand them on.
    """
    parts, at = [], 0
    pieces = list(tokenize(sql))
    for before, colon, word in zip([None, *pieces], pieces, pieces[1:], strict=False):
        if colon.text != ":" or word.kind != "word" or word.text not in values:
            continue
        if word.start != colon.end or _is_within(before, colon):
            continue
        parts += [sql[at : colon.start], _text(values[word.text])]
        at = word.end
    return "".join([*parts, sql[at:]])


def _is_within(before: SqlToken | None, colon: SqlToken) -> bool:
    """Whether a colon stands inside of something, as in `payload:name` and `amount::int`."""
    if before is None or before.end != colon.start:
        return False
    return before.kind in ("word", "quoted") or before.text in (")", "]", ":")


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _full(name: str) -> str:
    try:
        return qualified_name(name)
    except Invalid:
        return name


def _alias(named: TableReference) -> str:
    then = named.then.upper()
    if then == _SAMPLE or (_is_word(then) and then not in _NO_ALIAS):
        return ""
    return f" AS {quoted(base_name(_full(named.name)))}"


def _is_word(text: str) -> bool:
    return text[:1].isalpha() or text[:1] in ("_", "`")
