"""The datasets of a query: what its plan reads and writes, and what its scans really read.

The JSON of an analyzed plan names neither sources nor targets. Rows, bytes and partitions come from the
metrics of the executed plan; partitions are those left after pruning, at planning and at run time.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from arco.core import json
from arco.flow.lineage.observation import Dataset, ReadFact
from arco.flow.lineage.partition_text import (
    keys_from_listing,
    keys_from_tasks,
    split_partition_folders,
)
from arco.flow.lineage.plan_tree import Leaf
from arco.flow.spark.jvm import CallBudget, Java, class_of, first_id, iterate, option, texts

_WRITES_TABLE = frozenset(
    (
        *("AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic"),
        *("ReplaceData", "WriteDelta"),
    )
)
_WRITES_FILES = "InsertIntoHadoopFsRelationCommand"
# Commands around a write of files; their query stands in a field.
_CREATES = "CreateDataSourceTableAsSelectCommand"
_SAVES = "SaveIntoDataSourceCommand"
WRITES = _WRITES_TABLE | {_WRITES_FILES, _CREATES, _SAVES}

_V2 = frozenset(("DataSourceV2Relation", "DataSourceV2ScanRelation", "StreamingRelationV2"))
_V1 = "LogicalRelation"
_HIVE = "HiveTableRelation"
_MAX_PATHS = 50
_MAX_TASKS = 5_000
_METRIC = re.compile(r"(\w+) -> SQLMetric\(.*?, value: (-?\d+)\)")
_SNAPSHOT = re.compile(r"\bsnapshotId=(\d+)")
_ICEBERG = "org.apache.iceberg."
_ICEBERG_SCAN_CLASS = "SparkPartitioningAwareScan"


class PlanOutput(NamedTuple):
    """What a plan writes; a table of files has a name and a path."""

    datasets: tuple[Dataset, ...]
    partition_columns: frozenset[str]


def query_of(plan: Java, kind: str) -> Java:
    """The part of a plan that reads."""
    return plan.query() if kind in (_CREATES, _SAVES) else plan


def target_of(plan: Java, kind: str) -> PlanOutput:
    """What a plan that is one of `WRITES` writes."""
    if kind in _WRITES_TABLE:
        table = plan.table().table()
        return PlanOutput((Dataset(str(table.name())),), _partition_columns(table))
    if kind == _WRITES_FILES:
        table = option(plan.catalogTable())
        names = () if table is None else (_named(table),)
        columns = frozenset(str(column.name()) for column in iterate(plan.partitionColumns()))
        return PlanOutput((*names, Dataset(path=str(plan.outputPath().toString()))), columns)
    if kind == _CREATES:
        table = plan.table()
        return PlanOutput((_named(table),), frozenset(texts(table.partitionColumnNames())))
    path = option(plan.options().get("path"))
    return PlanOutput(() if path is None else (Dataset(path=str(path)),), frozenset())


def leaves_of(plan: Java, budget: CallBudget) -> Iterator[tuple[int, Leaf]]:
    """Every leaf that reads a dataset, by the id of its first column; `TimeoutError` if it takes long."""
    for part in (plan, *iterate(plan.subqueriesAll())):
        for node in iterate(part.collectLeaves()):
            if budget.is_spent():
                raise TimeoutError("its relations could not all be fetched in time")
            leaf = _leaf(node, class_of(node))
            key = None if leaf is None else first_id(node)
            if leaf is not None and key is not None:
                yield key, leaf


def _leaf(node: Java, kind: str) -> Leaf | None:
    if kind in _V2:
        table = node.table() if kind != "DataSourceV2ScanRelation" else node.relation().table()
        return Leaf((Dataset(str(table.name())),), _partition_columns(table))
    if kind == _V1:
        return _v1_leaf(node)
    if kind == _HIVE:
        table = node.tableMeta()
        return Leaf((_named(table),), frozenset(texts(table.partitionColumnNames())))
    return None


def _v1_leaf(node: Java) -> Leaf:
    relation, table = node.relation(), option(node.catalogTable())
    if class_of(relation) != "HadoopFsRelation":
        return Leaf((Dataset(str(relation)) if table is None else _named(table),))
    columns = frozenset(relation.partitionSchema().fieldNames())
    if table is not None:
        return Leaf((_named(table),), columns)
    return Leaf(_datasets_at(texts(relation.location().rootPaths())), columns)


def _named(table: Java) -> Dataset:
    """The dataset of a table of a Spark catalog."""
    return Dataset(str(table.identifier().unquotedString()))


def _partition_columns(table: Java) -> frozenset[str]:
    """The columns by which a table is partitioned, with any transform."""
    return frozenset(
        str(reference.toString())
        for transform in table.partitioning()
        for reference in transform.references()
    )


def _datasets_at(paths: list[str]) -> tuple[Dataset, ...]:
    """The datasets at these paths; a partition folder belongs to the folder above it."""
    roots, _ = split_partition_folders(paths)
    if len(roots) > _MAX_PATHS:
        roots = (_common_folder(roots),)
    return tuple(Dataset(path=root) for root in roots)


def _common_folder(paths: tuple[str, ...]) -> str:
    first, last = min(paths).split("/"), max(paths).split("/")
    differs = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return "/".join(first if differs is None else first[:differs])


def scans_of(plan: Java, gateway: Java, budget: CallBudget, notes: list[str]) -> list[ReadFact]:
    """A fact for each scan below an executed plan; `TimeoutError` if there are too many.

    What a source does not report is added to `notes`.
    """
    reads: list[ReadFact] = []
    for kind, node in _executed_leaves(plan):
        if budget.is_spent():
            raise TimeoutError("its scans could not all be fetched in time")
        if kind == "FileSourceScanExec":
            reads += _file_scan(node)
        elif kind == "BatchScanExec":
            reads.append(_table_scan(node, gateway, notes))
    return reads


def _executed_leaves(plan: Java) -> Iterator[tuple[str, Java]]:
    """The leaves, also inside the stages of adaptive plans, cached frames and subqueries."""
    waiting = [plan]
    while waiting:
        plan = waiting.pop()
        waiting += iterate(plan.subqueriesAll())
        for node in iterate(plan.collectLeaves()):
            kind = class_of(node)
            if kind == "AdaptiveSparkPlanExec":
                waiting.append(node.executedPlan())
            elif kind.endswith("QueryStageExec"):
                waiting.append(node.plan())
            elif kind == "InMemoryTableScanExec":
                waiting.append(node.relation().cachedPlan())
            else:
                yield kind, node


def _file_scan(scan: Java) -> list[ReadFact]:
    """One fact for each dataset; the counts of a scan over several cannot be divided among them."""
    metrics, relation = _metrics(scan), scan.relation()
    table = option(scan.tableIdentifier())
    paths = texts(relation.location().rootPaths())
    if table is not None:
        datasets: tuple[Dataset, ...] = (Dataset(str(table.unquotedString())),)
    else:
        datasets = _datasets_at(paths)
    partitions = _listed_partitions(scan, relation) or split_partition_folders(paths)[1]
    rows, size = metrics.get("numOutputRows"), metrics.get("filesSize")
    if len(datasets) == 1:
        return [ReadFact(datasets[0], partitions, rows, size)]
    return [ReadFact(dataset) for dataset in datasets]


def _listed_partitions(scan: Java, relation: Java) -> tuple[str, ...]:
    """The partitions that a scan of files read."""
    schema = json.decode(str(relation.partitionSchema().json()).encode(), dict[str, object])
    raw_fields = schema.get("fields")
    fields = [
        (str(field["name"]), str(field["type"]))
        for field in (raw_fields if isinstance(raw_fields, list) else [])
        if isinstance(field, dict)
    ]
    if not fields:
        return ()
    listing = scan.dynamicallySelectedPartitions().filePartitionIterator().mkString("\n")
    return keys_from_listing(str(listing), fields)


def _table_scan(scan: Java, gateway: Java, notes: list[str]) -> ReadFact:
    """A scan of a table with its own source; of Iceberg with snapshot and partitions."""
    metrics, inner = _metrics(scan), scan.scan()
    name = str(scan.table().name())
    version: str | None = None
    partitions: tuple[str, ...] = ()
    if str(inner.getClass().getName()).startswith(_ICEBERG):
        iceberg = _IcebergScan(scan, inner, gateway)
        try:
            version, partitions = iceberg.version(), iceberg.partitions()
        except Exception as problem:  # another release may have other methods
            notes.append(f"the partitions read of {name} are not known: {type(problem).__name__}")
    rows, size = metrics.get("numOutputRows"), metrics.get("totalDataFileSize")
    return ReadFact(Dataset(name), partitions, rows, size, version)


class _IcebergScan:
    """A scan of Iceberg. Its tasks and its snapshot are not public: its methods are made accessible."""

    def __init__(self, scan: Java, inner: Java, gateway: Java) -> None:
        self._scan = scan
        self._inner = inner
        self._gateway = gateway
        java_class = inner.getClass()
        while java_class is not None and str(java_class.getSimpleName()) != _ICEBERG_SCAN_CLASS:
            java_class = java_class.getSuperclass()
        self._class = java_class

    def version(self) -> str | None:
        """The snapshot; one release prints it, another has it in the scan of the table."""
        printed = _SNAPSHOT.search(str(self._inner.toString()))
        if printed is not None or self._class is None:
            return None if printed is None else printed[1]
        table_scan = self._call("scan")
        snapshot = None if table_scan is None else table_scan.snapshot()
        return None if snapshot is None else str(snapshot.snapshotId())

    def partitions(self) -> tuple[str, ...]:
        """The partitions of the files that were left to read."""
        tasks = None if self._class is None else self._call("tasks")
        if tasks is None or not 0 < tasks.size() <= _MAX_TASKS:
            return ()
        table = self._scan.table()
        if class_of(table) == "RowLevelOperationTable":  # around what UPDATE or MERGE reads again
            table = table.table()
        specs = list(table.table().specs().values())
        types = [str(spec.partitionType().toString()) for spec in specs]
        return keys_from_tasks(
            str(tasks.toString()), types, [str(spec.toString()) for spec in specs]
        )

    def _call(self, name: str) -> Java:
        new_array, jvm = self._gateway.new_array, self._gateway.jvm
        method = self._class.getDeclaredMethod(name, new_array(jvm.Class, 0))
        method.setAccessible(True)
        return method.invoke(self._inner, new_array(jvm.Object, 0))


def _metrics(scan: Java) -> dict[str, int]:
    """All counters by name; a counter that was never increased may be negative, and is left out."""
    counters = _METRIC.findall(str(scan.metrics().mkString(" | ")))
    return {name: int(value) for name, value in counters if int(value) >= 0}
