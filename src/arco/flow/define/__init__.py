"""Definitions: the assets, tasks, sources and checks that a project declares.

It promises that a decorated function stays callable as before, that projects in one process do not mix,
that all problems of a project are reported at once with file and line, and that a fingerprint changes
exactly when the code behind an asset does. It never runs an asset, imports no Spark and reads no clock. It
may import partition, catalog (for names) and core.
"""

from arco.flow.define import checks
from arco.flow.define.asset import AssetDef, OutputDef, TaskDef, asset, task
from arco.flow.define.check_rules import CheckDef, Result, check
from arco.flow.define.context import Context
from arco.flow.define.declarations import DefinitionProblem, SourceLine
from arco.flow.define.fingerprint import code_fingerprint
from arco.flow.define.inputs import InputDef, SourceDef, TableRef, source, table
from arco.flow.define.load import load_project
from arco.flow.define.options import Mode, Retry, merge
from arco.flow.define.project import Project
from arco.flow.define.sql import sql
from arco.flow.define.validation import find_problems

__all__ = [
    "AssetDef",
    "CheckDef",
    "Context",
    "DefinitionProblem",
    "InputDef",
    "Mode",
    "OutputDef",
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
    "find_problems",
    "load_project",
    "merge",
    "source",
    "sql",
    "table",
    "task",
]
