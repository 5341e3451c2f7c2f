"""Definitions: what people write to say which tables there are and how they come about.

It promises that a decorated function stays the plain function it was, that projects in one process do not
mix, that all mistakes of a project are told at once with file and line, and that a fingerprint changes
exactly when the code behind an asset does. It never runs an asset, imports no Spark and knows no clock.
It enters partitions, catalog (for names) and core.
"""

from arco.flow.define import checks
from arco.flow.define.asset import AssetDef, OutputDef, asset
from arco.flow.define.check import CheckDef, Result, check
from arco.flow.define.context import Context
from arco.flow.define.fingerprint import code_fingerprint
from arco.flow.define.load import load_project
from arco.flow.define.mode import Mode, merge
from arco.flow.define.problem import Problem
from arco.flow.define.problems import problems
from arco.flow.define.project import Project
from arco.flow.define.retry import Retry
from arco.flow.define.source import SourceDef, source
from arco.flow.define.sql import sql
from arco.flow.define.table import InputDef, TableRef, table
from arco.flow.define.task import TaskDef, task
from arco.flow.define.where import SourceLine

__all__ = [
    "AssetDef",
    "CheckDef",
    "Context",
    "InputDef",
    "Mode",
    "OutputDef",
    "Problem",
    "Project",
    "Result",
    "Retry",
    "SourceDef",
    "SourceLine",
    "TableRef",
    "TaskDef",
    "asset",
    "check",
    "checks",
    "code_fingerprint",
    "load_project",
    "merge",
    "problems",
    "source",
    "sql",
    "table",
    "task",
]
