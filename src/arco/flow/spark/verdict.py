"""What a check function has said, as a finding.

Whoever counts with pandas or numpy returns their numbers and truth values, which are none of Python's; they
mean the same, and are told by how they behave: nobody needs numpy here.
"""

from numbers import Integral

from arco.core.errors import Invalid
from arco.flow.define.check_rules import CheckDef, Result
from arco.flow.spark.checks import Finding, bad_rows


def verdict(check: CheckDef, said: object, rows: int) -> Finding:
    """The finding of a check that a function has judged over so many rows."""
    match _plain(said):
        case Result() as result:
            return _told(result)
        case bool(holds):
            return Finding(holds, "true", str(holds).lower(), None if holds else "it does not hold")
        case int(count):
            return bad_rows(count, rows, "are bad")
    raise Invalid(
        f"{check.where}: the check {check.name!r} returned {type(said).__name__}: return true or "
        "false, the number of bad rows, or arco.Result(...)"
    )


def _told(result: Result) -> Finding:
    actual = result.bad_rows if result.actual is None else result.actual
    return Finding(
        bool(result.passed), _text(result.expected), _text(actual), _text(result.message or None)
    )


def _plain(said: object) -> object:
    """A single number or truth value as Python's own; all else as it is."""
    if isinstance(said, bool):
        return said
    if isinstance(said, Integral):
        return int(said)
    kind, shape = getattr(getattr(said, "dtype", None), "kind", None), getattr(said, "shape", None)
    # A column of Spark has whatever attribute it is asked for, and that is another column.
    is_one = isinstance(kind, str) and isinstance(shape, tuple) and not shape
    return bool(said) if is_one and kind == "b" else said


def _text(value: object) -> str | None:
    return None if value is None else str(value)
