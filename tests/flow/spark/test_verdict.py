"""What check functions return, and what it means."""

from typing import Any

import msgspec
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

from arco.core import json
from arco.core.errors import Invalid
from arco.flow.define.check_rules import CheckDef, FunctionRule, Result
from arco.flow.spark.checks import Finding
from arco.flow.spark.verdict import verdict


def _found(said: object) -> Finding:
    check = CheckDef("few", FunctionRule(lambda: None), "error", "default.s.t")
    return verdict(check, said, 9)


_GOOD: list[Any] = [True, np.bool_(True), np.array([1, 2]).any(), pd.Series([True]).all()]
_BAD: list[Any] = [False, np.bool_(False), np.array([1, 0]).all(), pd.Series([False]).any()]
_THREE: list[Any] = [3, np.int64(3), np.uint8(3), np.array([1, 2]).sum(), pd.Series([1, 2]).sum()]


@pytest.mark.parametrize("said", _GOOD, ids=lambda each: type(each).__module__)
def test_a_check_that_says_true_has_passed(said: object) -> None:
    assert _found(said) == Finding(True, "true", "true")


@pytest.mark.parametrize("said", _BAD, ids=lambda each: type(each).__module__)
def test_a_check_that_says_false_has_failed(said: object) -> None:
    assert _found(said) == Finding(False, "true", "false", "it does not hold")


@pytest.mark.parametrize("said", _THREE, ids=lambda each: type(each).__name__)
def test_a_check_that_says_a_number_has_counted_bad_rows(said: object) -> None:
    assert _found(said) == Finding(False, "0", "3", "3 of 9 rows are bad")


def test_no_bad_rows_are_a_check_that_has_passed() -> None:
    assert _found(np.int64(0)) == Finding(True, "0", "0")


def test_a_result_may_hold_such_values_too_and_can_be_told() -> None:
    said: Any = Result(passed=np.bool_(False), bad_rows=np.int64(2), expected=np.int64(0))  # type: ignore[arg-type]
    found = _found(said)
    assert found == Finding(False, "0", "2")
    assert json.decode(json.encode(msgspec.to_builtins(found)), Finding) == found


class _Column:
    """As a column of Spark is: it has every attribute, and is neither true nor false."""

    def __getattr__(self, name: str) -> "_Column":
        return _Column()

    def __eq__(self, other: object) -> Any:
        return _Column()

    def __bool__(self) -> bool:
        raise ValueError("cannot convert a column to a truth value")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "said",
    [None, 0.5, "3", [True], np.float64(1), np.array([True]), pd.Series([True, False]), _Column()],
    ids=lambda each: type(each).__name__,
)
def test_whatever_says_neither_is_refused_with_what_to_return(said: object) -> None:
    with pytest.raises(Invalid, match=r"'few' returned .*: return true or false, the number"):
        _found(said)
