"""Whether the queries of a project can be parsed, told with file and line before Spark sees them."""

from collections.abc import Iterator

from arco.flow.define.asset import AssetDef
from arco.flow.define.problem import Problem
from arco.flow.define.project import Project

_DIALECT = "spark"
_SHOWN_CHARS = 40


def sql_problems(project: Project) -> list[Problem]:
    """The syntax errors of all queries of assets."""
    return sorted({wrong for asset in project.assets if asset.sql for wrong in _of_asset(asset)})


def _of_asset(asset: AssetDef) -> Iterator[Problem]:
    import sqlglot  # which is slow to import
    from sqlglot import exp
    from sqlglot.errors import ParseError, TokenError

    query = asset.sql or ""
    try:
        found = [each for each in sqlglot.parse(query, dialect=_DIALECT) if each is not None]
    except ParseError as wrong:
        for each in wrong.errors:
            said = str(each.get("description") or "it cannot be parsed").removesuffix(".")
            near = str(each.get("highlight") or "")[:_SHOWN_CHARS]
            at = f" at {near!r}" if near else ""
            yield _problem(asset, int(each.get("line") or 1), f"{said}{at}")
        return
    except TokenError:
        message = "it cannot be split into words: is a quotation mark or a comment left open?"
        yield _problem(asset, _first_line(query), message)
        return
    if len(found) > 1:
        yield _problem(
            asset, _first_line(query), f"there are {len(found)} statements: an asset is one query"
        )
    elif found and not isinstance(found[0], exp.Query | exp.Values | exp.Command | exp.Alias):
        kind = type(found[0]).__name__.upper()
        yield _problem(
            asset,
            _first_line(query),
            f"{kind} is no query: write the SELECT, Arco writes the table",
        )


def _problem(asset: AssetDef, line: int, message: str) -> Problem:
    """An error in a line of a query: a query in a file has its lines where they are in the file."""
    if asset.sql_file is not None:
        return Problem(asset.sql_file, line, f"the query has a syntax error: {message}")
    where = asset.where
    said = f"the query has a syntax error in its line {line}: {message}"
    return Problem(where.file, where.line, said)


def _first_line(query: str) -> int:
    return query[: len(query) - len(query.lstrip())].count("\n") + 1
