"""EXPLAIN: beside the engine's plan, how many files of each table were read and how many were not."""

from collections.abc import Mapping

import pyarrow as pa

from arco.query.prune import Pruned

PLAN_TYPE = "files"


def with_files(plan: pa.Table, files: Mapping[str, Pruned]) -> pa.Table:
    """A plan and one more row: what was read of the tables of state, and what could be passed over."""
    text = "\n".join(_line(name, each) for name, each in sorted(files.items()))
    row = [PLAN_TYPE, text or "no files are read"]
    added = [pa.array([value], field.type) for value, field in zip(row, plan.schema, strict=True)]
    return pa.concat_tables([plan, pa.table(added, schema=plan.schema)])


def _line(name: str, files: Pruned) -> str:
    read = len(files.files)
    total = read + files.by_bucket + files.by_range
    return (
        f"{name}: {read} of {total} files read, "
        f"{files.by_bucket} skipped by bucket, {files.by_range} by range"
    )
