"""From what is declared of an asset or a task to what a plan says of it."""

from arco.flow.define.asset import AssetDef
from arco.flow.define.retry import Retry
from arco.flow.plan.graph import MakerDef
from arco.flow.plan.plan import Again, Maker, Target

OWN_WAY = "task"
"""The mode of a table that a task writes by itself."""


def maker_of(declared: MakerDef, code_fingerprint: str | None = None) -> Maker:
    """What is the same for all tasks of an asset or task; the fingerprint is of the code behind it."""
    return Maker(
        name=declared.name,
        kind="asset" if isinstance(declared, AssetDef) else "task",
        targets=targets_of(declared),
        pool=declared.pool,
        retry=again_of(declared.retries),
        timeout_ms=declared.timeout_ms,
        code_fingerprint=code_fingerprint,
    )


def targets_of(declared: MakerDef) -> tuple[Target, ...]:
    """The tables that it writes.

    Whoever merges or replaces a whole table does it alone: two at once would each take the other's rows.
    """
    if not isinstance(declared, AssetDef):
        return tuple(Target(table=each.table, format="", mode=OWN_WAY) for each in declared.outputs)
    mode = declared.mode.kind
    return tuple(
        Target(
            table=each.table,
            format=declared.format,
            mode=mode,
            alone=mode in ("merge", "replace"),
            on_change=declared.mode.on_change,
        )
        for each in declared.outputs
    )


def again_of(retry: Retry) -> Again:
    """When a failed attempt is made again."""
    return Again(
        times=retry.times,
        delay_ms=retry.delay_ms,
        factor=float(retry.factor),
        max_ms=retry.max_ms,
        jitter=float(retry.jitter),
    )
