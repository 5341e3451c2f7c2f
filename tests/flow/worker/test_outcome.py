"""Texts and numbers of user code as JSON can encode them."""

import os
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from arco.core import json
from arco.flow.coordinator.messages import AttemptOutcome, CheckOutcome, OutputResult, TaskStatus
from arco.flow.worker.outcome import escape_outcome, to_metric, to_number

NO_UTF8 = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (3, 3),
        (0.5, 0.5),
        (True, 1),
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.array(2.0), 2.0),
        (Decimal("1.5"), 1.5),
        (float("nan"), "nan"),
        (np.float64("inf"), "inf"),
        (float("-inf"), "-inf"),
    ],
)
def test_numbers_of_any_library_are_converted(value: Any, meant: float | str) -> None:
    metric = to_metric(value)
    assert (metric, json.encode(metric)) == (meant, json.encode(meant))


@pytest.mark.parametrize("value", [None, "many", [1], np.array([1, 2])])
def test_anything_else_is_rejected_as_a_number(value: Any) -> None:
    with pytest.raises(ValueError, match="is no number"):
        to_number(value)


def test_an_outcome_keeps_all_that_json_can_encode() -> None:
    outcome = AttemptOutcome(
        status=TaskStatus.FAILED,
        error=f"FileNotFoundError: {NO_UTF8}",
        outputs=(OutputResult(table="t", table_id="id", partition="ds=1", version=7),),
        checks=(
            CheckOutcome(
                table="t",
                table_id="id",
                name="few",
                type="ROW_COUNT",
                severity="error",
                passed=False,
                message=NO_UTF8,
            ),
        ),
        metrics={NO_UTF8: 1.5},
    )
    plain = escape_outcome(outcome)
    assert json.decode(json.encode(plain), AttemptOutcome) == plain
    assert plain.error == "FileNotFoundError: caf\\udce9"
    assert (plain.outputs, plain.status) == (outcome.outputs, outcome.status)
    assert (plain.checks[0].message, plain.metrics) == ("caf\\udce9", {"caf\\udce9": 1.5})
    assert escape_outcome(plain) is plain
