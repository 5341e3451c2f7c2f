"""Scans: what a query really read, by the metrics of its executed plan.

Partitions are those that were left after pruning, at planning and while it ran.
"""

import re
from collections.abc import Iterator

from arco.core import json
from arco.flow.lineage.observation import Dataset, ReadFact
from arco.flow.lineage.partition_text import from_listing, from_paths, from_tasks
from arco.flow.spark.lineage.budget import Budget
from arco.flow.spark.lineage.java import Java, each, kind_of, option, texts
from arco.flow.spark.lineage.relations import datasets_at

_MOST_TASKS = 5_000
_METRIC = re.compile(r"(\w+) -> SQLMetric\(.*?, value: (-?\d+)\)")
_SNAPSHOT = re.compile(r"\bsnapshotId=(\d+)")
_ICEBERG = "org.apache.iceberg."
_HOLDS_TASKS = "SparkPartitioningAwareScan"


def reads_of(plan: Java, gateway: Java, budget: Budget, notes: list[str]) -> list[ReadFact]:
    """A fact for each scan below a plan; `TimeoutError` if there are too many to ask in time.

    What a source does not tell of itself is noted.
    """
    found: list[ReadFact] = []
    for kind, node in _leaves(plan):
        if budget.is_spent():
            raise TimeoutError("its scans are too many to ask for in time")
        if kind == "FileSourceScanExec":
            found += _of_files(node)
        elif kind == "BatchScanExec":
            found.append(_of_table(node, gateway, notes))
    return found


def _leaves(plan: Java) -> Iterator[tuple[str, Java]]:
    """The leaves, looking into the stages of adaptive plans, cached frames and subqueries."""
    waiting = [plan]
    while waiting:
        plan = waiting.pop()
        waiting += each(plan.subqueriesAll())
        for node in each(plan.collectLeaves()):
            kind = kind_of(node)
            if kind == "AdaptiveSparkPlanExec":
                waiting.append(node.executedPlan())
            elif kind.endswith("QueryStageExec"):
                waiting.append(node.plan())
            elif kind == "InMemoryTableScanExec":
                waiting.append(node.relation().cachedPlan())
            else:
                yield kind, node


def _of_files(scan: Java) -> list[ReadFact]:
    """A scan of several paths has one fact for each; what it counted cannot be told apart."""
    metrics, relation = _metrics(scan), scan.relation()
    table = option(scan.tableIdentifier())
    paths = texts(relation.location().rootPaths())
    if table is not None:
        datasets: tuple[Dataset, ...] = (Dataset(str(table.unquotedString())),)
    else:
        datasets = datasets_at(paths)
    partitions = _listed(scan, relation) or from_paths(paths)[1]
    rows, size = metrics.get("numOutputRows"), metrics.get("filesSize")
    if len(datasets) == 1:
        return [ReadFact(datasets[0], partitions, rows, size)]
    return [ReadFact(dataset) for dataset in datasets]


def _listed(scan: Java, relation: Java) -> tuple[str, ...]:
    """The partitions that were read, by the schema of their columns."""
    schema = json.decode(str(relation.partitionSchema().json()).encode(), dict[str, object])
    told = schema.get("fields")
    fields = [
        (str(field["name"]), str(field["type"]))
        for field in (told if isinstance(told, list) else [])
        if isinstance(field, dict)
    ]
    if not fields:
        return ()
    listing = scan.dynamicallySelectedPartitions().filePartitionIterator().mkString("\n")
    return from_listing(str(listing), fields)


def _of_table(scan: Java, gateway: Java, notes: list[str]) -> ReadFact:
    """A scan of a table that brings its own source; of Iceberg's, snapshot and partitions too."""
    metrics, inner = _metrics(scan), scan.scan()
    name = str(scan.table().name())
    version: str | None = None
    partitions: tuple[str, ...] = ()
    if str(inner.getClass().getName()).startswith(_ICEBERG):
        asked = _Iceberg(scan, inner, gateway)
        try:
            version, partitions = asked.version(), asked.partitions()
        except Exception as problem:  # another release may keep them elsewhere
            notes.append(f"the partitions read of {name} are not known: {type(problem).__name__}")
    rows, size = metrics.get("numOutputRows"), metrics.get("totalDataFileSize")
    return ReadFact(Dataset(name), partitions, rows, size, version)


class _Iceberg:
    """A scan of Iceberg, which keeps to itself what it reads: methods are called that are not public."""

    def __init__(self, scan: Java, inner: Java, gateway: Java) -> None:
        self._scan = scan
        self._inner = inner
        self._gateway = gateway
        holder = inner.getClass()
        while holder is not None and str(holder.getSimpleName()) != _HOLDS_TASKS:
            holder = holder.getSuperclass()
        self._holder = holder

    def version(self) -> str | None:
        """The snapshot; one release prints it, another has it in what it asks of the table."""
        told = _SNAPSHOT.search(str(self._inner.toString()))
        if told is not None or self._holder is None:
            return None if told is None else told[1]
        asked = self._call("scan")
        snapshot = None if asked is None else asked.snapshot()
        return None if snapshot is None else str(snapshot.snapshotId())

    def partitions(self) -> tuple[str, ...]:
        """Those of the files that were left to read."""
        tasks = None if self._holder is None else self._call("tasks")
        if tasks is None or not 0 < tasks.size() <= _MOST_TASKS:
            return ()
        table = self._scan.table()
        if kind_of(table) == "RowLevelOperationTable":  # around what UPDATE or MERGE reads again
            table = table.table()
        specs = list(table.table().specs().values())
        types = [str(spec.partitionType().toString()) for spec in specs]
        return from_tasks(str(tasks.toString()), types, [str(spec.toString()) for spec in specs])

    def _call(self, name: str) -> Java:
        new_array, jvm = self._gateway.new_array, self._gateway.jvm
        method = self._holder.getDeclaredMethod(name, new_array(jvm.Class, 0))
        method.setAccessible(True)
        return method.invoke(self._inner, new_array(jvm.Object, 0))


def _metrics(scan: Java) -> dict[str, int]:
    """All counters by their names; one that nothing was added to may be below zero."""
    told = _METRIC.findall(str(scan.metrics().mkString(" | ")))
    return {name: int(value) for name, value in told if int(value) >= 0}
