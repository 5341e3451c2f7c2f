"""Numbered facts: the event that tells each of them, and the SQL that finds them again.

Every number is one event, and makes one row or one part of a row that says the number: so rows can be
counted against what was acknowledged. A run is told of by two events, which may come in any order.
"""

from typing import Any

KINDS = 8  # of eight numbers one starts a run, one ends it, one is lineage, and five are results of checks
_STARTED, _COMPLETED, _LINEAGE = 4, 5, 6
_PIPELINE = "nightly"

FOUND = f"""
SELECT CAST(check_name AS BIGINT) AS number, concat(status, ' ', actual_value) AS told
FROM system.quality_results
UNION ALL
SELECT {KINDS} * CAST(execution_id AS BIGINT) + {_STARTED}, pipeline_id
FROM system.executions WHERE pipeline_id IS NOT NULL
UNION ALL
SELECT {KINDS} * CAST(execution_id AS BIGINT) + {_COMPLETED}, concat(status, ' ', duration_ms)
FROM system.executions WHERE completed_at IS NOT NULL
UNION ALL
SELECT {KINDS} * CAST(execution_id AS BIGINT) + {_LINEAGE}, task_id
FROM system.edge_observations
"""


def event(number: int, key: str | None = None) -> dict[str, Any]:
    """The event that tells a fact, as it is sent."""
    kind, payload = _payload(number)
    sent = {
        "event_type": kind,
        "event_version": 1,
        "occurred_at": "2026-05-01T10:00:00Z",
        "source": {"type": "test"},
        "payload": payload,
    }
    return sent if key is None else sent | {"idempotency_key": key}


def expected_row(number: int) -> str:
    """What `FOUND` says of a number."""
    match number % KINDS:
        case 4:
            return _PIPELINE
        case 5:
            return f"SUCCESS {number}"
        case 6:
            return f"task-{number}"
        case 0:
            return f"FAILED {7 * number}"
    return f"PASSED {7 * number}"


def _payload(number: int) -> tuple[str, dict[str, Any]]:
    run = str(number // KINDS)
    match number % KINDS:
        case 4:
            return "execution_started", {"execution_id": run, "pipeline_id": _PIPELINE}
        case 5:
            done = {"execution_id": run, "status": "SUCCESS", "duration_ms": number}
            return "execution_completed", done
        case 6:
            return "lineage_observed", {
                "soundness": "exact",
                "execution_id": run,
                "task_id": f"task-{number}",
                "inputs": [{"table_id": "raw"}],
                "outputs": [{"table_id": "orders"}],
            }
    result = "failed" if number % KINDS == 0 else "passed"
    return f"quality_check_{result}", {
        "table_id": f"table-{number % 97}",
        "check_name": str(number),
        "check_type": "ROW_COUNT",
        "actual_value": str(7 * number),
    }
