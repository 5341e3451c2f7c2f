"""Relations: where the leaves of an analyzed plan read, and what a write writes; its JSON says neither."""

from collections.abc import Iterator
from typing import NamedTuple

from arco.flow.lineage.facts import Leaf
from arco.flow.lineage.observation import Dataset
from arco.flow.lineage.partition_text import from_paths
from arco.flow.spark.lineage.budget import Budget
from arco.flow.spark.lineage.java import Java, each, first_id, kind_of, option, texts

_WRITES_TABLE = frozenset(
    (
        *("AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic"),
        *("ReplaceData", "WriteDelta"),
    )
)
_WRITES_FILES = "InsertIntoHadoopFsRelationCommand"
# Around a write of files; their query stands in a field.
_CREATES = "CreateDataSourceTableAsSelectCommand"
_SAVES = "SaveIntoDataSourceCommand"
WRITES = _WRITES_TABLE | {_WRITES_FILES, _CREATES, _SAVES}

_V2 = frozenset(("DataSourceV2Relation", "DataSourceV2ScanRelation", "StreamingRelationV2"))
_V1 = "LogicalRelation"
_HIVE = "HiveTableRelation"
_MOST_PATHS = 50


class Target(NamedTuple):
    """What a write writes; a table of files goes by its name and by its path."""

    datasets: tuple[Dataset, ...]
    partition_columns: frozenset[str]


def query_of(plan: Java, kind: str) -> Java:
    """The part of a plan that reads."""
    return plan.query() if kind in (_CREATES, _SAVES) else plan


def leaves_of(plan: Java, budget: Budget) -> Iterator[tuple[int, Leaf]]:
    """Every leaf that reads something, by the id of its first column; `TimeoutError` if it takes long."""
    for part in (plan, *each(plan.subqueriesAll())):
        for node in each(part.collectLeaves()):
            if budget.is_spent():
                raise TimeoutError("its relations are too many to ask for in time")
            leaf = _leaf(node, kind_of(node))
            key = None if leaf is None else first_id(node)
            if leaf is not None and key is not None:
                yield key, leaf


def _leaf(node: Java, kind: str) -> Leaf | None:
    if kind in _V2:
        table = node.table() if kind != "DataSourceV2ScanRelation" else node.relation().table()
        return Leaf((Dataset(str(table.name())),), _references(table))
    if kind == _V1:
        return _of_v1(node)
    if kind == _HIVE:
        meta = node.tableMeta()
        columns = frozenset(texts(meta.partitionColumnNames()))
        return Leaf((Dataset(str(meta.identifier().unquotedString())),), columns)
    return None


def _of_v1(node: Java) -> Leaf:
    relation, table = node.relation(), option(node.catalogTable())
    if kind_of(relation) != "HadoopFsRelation":
        name = str(relation) if table is None else str(table.identifier().unquotedString())
        return Leaf((Dataset(name),))
    columns = frozenset(relation.partitionSchema().fieldNames())
    if table is not None:
        return Leaf((Dataset(str(table.identifier().unquotedString())),), columns)
    return Leaf(datasets_at(texts(relation.location().rootPaths())), columns)


def datasets_at(paths: list[str]) -> tuple[Dataset, ...]:
    """What lies at these paths; folders of partitions belong to what is above them."""
    roots, _ = from_paths(paths)
    if len(roots) > _MOST_PATHS:
        roots = (_above_all(roots),)
    return tuple(Dataset(path=root) for root in roots)


def _above_all(paths: tuple[str, ...]) -> str:
    """The folder that holds all of them."""
    first, last = min(paths).split("/"), max(paths).split("/")
    same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return "/".join(first if same is None else first[:same])


def _references(table: Java) -> frozenset[str]:
    """The columns by which a table is partitioned, whichever the transforms."""
    return frozenset(
        str(reference.toString())
        for transform in table.partitioning()
        for reference in transform.references()
    )


def target_of(plan: Java, kind: str) -> Target:
    """What a write writes."""
    if kind in _WRITES_TABLE:
        table = plan.table().table()
        return Target((Dataset(str(table.name())),), _references(table))
    if kind == _WRITES_FILES:
        table = option(plan.catalogTable())
        named = () if table is None else (Dataset(str(table.identifier().unquotedString())),)
        columns = frozenset(str(column.name()) for column in each(plan.partitionColumns()))
        return Target((*named, Dataset(path=str(plan.outputPath().toString()))), columns)
    if kind == _CREATES:
        table = plan.table()
        columns = frozenset(texts(table.partitionColumnNames()))
        return Target((Dataset(str(table.identifier().unquotedString())),), columns)
    path = option(plan.options().get("path"))
    return Target(() if path is None else (Dataset(path=str(path)),), frozenset())
