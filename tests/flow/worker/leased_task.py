"""A leased task for tests that need any."""

from arco.flow.coordinator.messages import LeasedTask

TASK = LeasedTask(
    run_id="RUN",
    key="t",
    maker="t",
    partition="",
    attempt=1,
    attempt_id="0" * 32,
    lease_until_ms=0,
    reason="MISSING",
    now_ms=0,
)
