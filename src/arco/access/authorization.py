"""Authorization: every operation of the APIs, the matrix of what each may do, and the decision.

The matrix is data: a route names its operation, and `authorize` reads the entry. A test finds operations
without one. An identity may do everything within its own scope and nothing beyond it. The refusal is one
constant message, so that it reveals nothing about what exists.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from arco.access.principal import Principal, PrincipalRole
from arco.core.errors import Denied
from arco.core.ids import ObjectId
from arco.core.scope import Scope


class TargetKind(StrEnum):
    """The kinds of objects that operations act on."""

    WORKSPACE = "workspace"
    CATALOG = "catalog"
    SCHEMA = "schema"
    TABLE = "table"
    OBJECT = "object"  # named by its id alone, whatever its kind


class Operation(StrEnum):
    """The operations of the APIs, by their names in the OpenAPI document.

    Operations of the Iceberg REST catalog have the names of its specification, after `iceberg_`.
    """

    LIST_CATALOGS = "list_catalogs"
    CREATE_CATALOG = "create_catalog"
    GET_CATALOG = "get_catalog"
    UPDATE_CATALOG = "update_catalog"
    DROP_CATALOG = "drop_catalog"
    LIST_SCHEMAS = "list_schemas"
    CREATE_SCHEMA = "create_schema"
    GET_SCHEMA = "get_schema"
    UPDATE_SCHEMA = "update_schema"
    DROP_SCHEMA = "drop_schema"
    LIST_TABLES = "list_tables"
    CREATE_TABLE = "create_table"
    GET_TABLE = "get_table"
    UPDATE_TABLE = "update_table"
    DROP_TABLE = "drop_table"
    LIST_VIEWS = "list_views"
    CREATE_VIEW = "create_view"
    GET_VIEW = "get_view"
    UPDATE_VIEW = "update_view"
    DROP_VIEW = "drop_view"
    ADD_COLUMN = "add_column"
    UPDATE_COLUMN = "update_column"
    DROP_COLUMN = "drop_column"
    GET_SCHEMA_HISTORY = "get_schema_history"
    GET_OBJECT = "get_object"
    GET_OBJECT_HISTORY = "get_object_history"
    UNDROP_OBJECT = "undrop_object"
    LIST_COMMITS = "list_commits"
    GET_COMMIT = "get_commit"
    DIFF = "diff"
    GET_MANIFEST = "get_manifest"
    QUERY = "query"
    APPEND_EVENTS = "append_events"
    GET_LAG = "get_lag"
    LIST_EXECUTIONS = "list_runs"
    GET_EXECUTION = "get_execution"
    LIST_TASKS = "list_tasks"
    LIST_PARTITIONS = "list_partitions"
    GET_TABLE_HEALTH = "get_table_health"
    GET_STATISTICS = "get_statistics"
    GET_LINEAGE = "get_lineage"
    REPLAY_QUARANTINED = "replay_quarantined"
    GET_FLOW_STATE = "get_flow_state"
    SUBMIT_RUN = "submit_run"
    LIST_RUNS = "list_all_runs"
    GET_RUN = "get_run"
    LIST_RUN_TASKS = "list_run_tasks"
    GET_TASK_LOG = "get_task_log"
    CANCEL_RUN = "cancel_run"
    RETRY_RUN = "retry_run"
    LEASE_TASKS = "lease_tasks"
    WATCH_ATTEMPTS = "watch_attempts"
    HEARTBEAT = "beat_attempt"
    COMPLETE_ATTEMPT = "complete_attempt"
    CHANGE_PARTITION_VALUES = "change_partition_values"
    PUBLISH_FILES = "publish_files"
    LIST_FILES = "list_files"
    HEALTH = "health"
    METRICS = "metrics"
    OPENAPI = "openapi"
    DOCS = "docs"
    SYNC_COMPACT = "sync_compact"
    PUBLISH_ORPHAN_MARK = "publish_orphan_mark"
    MERGE = "merge"
    NOTIFY = "notify"
    ICEBERG_GET_CONFIG = "iceberg_get_config"
    ICEBERG_LIST_NAMESPACES = "iceberg_list_namespaces"
    ICEBERG_CREATE_NAMESPACE = "iceberg_create_namespace"
    ICEBERG_LOAD_NAMESPACE = "iceberg_load_namespace"
    ICEBERG_NAMESPACE_EXISTS = "iceberg_namespace_exists"
    ICEBERG_DROP_NAMESPACE = "iceberg_drop_namespace"
    ICEBERG_UPDATE_PROPERTIES = "iceberg_update_properties"
    ICEBERG_LIST_TABLES = "iceberg_list_tables"
    ICEBERG_CREATE_TABLE = "iceberg_create_table"
    ICEBERG_LOAD_TABLE = "iceberg_load_table"
    ICEBERG_TABLE_EXISTS = "iceberg_table_exists"
    ICEBERG_UPDATE_TABLE = "iceberg_update_table"
    ICEBERG_DROP_TABLE = "iceberg_drop_table"
    ICEBERG_UNREGISTER_TABLE = "iceberg_unregister_table"
    ICEBERG_REGISTER_TABLE = "iceberg_register_table"
    ICEBERG_RENAME_TABLE = "iceberg_rename_table"
    ICEBERG_REPORT_METRICS = "iceberg_report_metrics"
    ICEBERG_LOAD_CREDENTIALS = "iceberg_load_credentials"
    ICEBERG_COMMIT_TRANSACTION = "iceberg_commit_transaction"
    ICEBERG_LIST_VIEWS = "iceberg_list_views"
    ICEBERG_CREATE_VIEW = "iceberg_create_view"
    ICEBERG_LOAD_VIEW = "iceberg_load_view"
    ICEBERG_VIEW_EXISTS = "iceberg_view_exists"
    ICEBERG_REPLACE_VIEW = "iceberg_replace_view"
    ICEBERG_DROP_VIEW = "iceberg_drop_view"
    ICEBERG_RENAME_VIEW = "iceberg_rename_view"
    ICEBERG_REGISTER_VIEW = "iceberg_register_view"
    ICEBERG_LIST_FUNCTIONS = "iceberg_list_functions"
    ICEBERG_LOAD_FUNCTION = "iceberg_load_function"


@dataclass(frozen=True)
class AccessRule:
    """What an operation acts on, and the role that may ask for it."""

    targets: frozenset[TargetKind]
    reads: bool
    role: PrincipalRole | None  # None: no principal is needed


def _reads(*targets: TargetKind) -> AccessRule:
    return AccessRule(frozenset(targets), reads=True, role=PrincipalRole.CALLER)


def _writes(*targets: TargetKind) -> AccessRule:
    return AccessRule(frozenset(targets), reads=False, role=PrincipalRole.CALLER)


_PUBLIC = AccessRule(frozenset(), reads=True, role=None)
_INTERNAL = AccessRule(frozenset({TargetKind.WORKSPACE}), reads=False, role=PrincipalRole.SERVICE)

# Creating and listing act on the container; the container of a nested schema is a schema.
ACCESS_MATRIX: Mapping[Operation, AccessRule] = MappingProxyType(
    {
        Operation.LIST_CATALOGS: _reads(TargetKind.WORKSPACE),
        Operation.CREATE_CATALOG: _writes(TargetKind.WORKSPACE),
        Operation.GET_CATALOG: _reads(TargetKind.CATALOG),
        Operation.UPDATE_CATALOG: _writes(TargetKind.CATALOG),
        Operation.DROP_CATALOG: _writes(TargetKind.CATALOG),
        Operation.LIST_SCHEMAS: _reads(TargetKind.CATALOG, TargetKind.SCHEMA),
        Operation.CREATE_SCHEMA: _writes(TargetKind.CATALOG, TargetKind.SCHEMA),
        Operation.GET_SCHEMA: _reads(TargetKind.SCHEMA),
        Operation.UPDATE_SCHEMA: _writes(TargetKind.SCHEMA),
        Operation.DROP_SCHEMA: _writes(TargetKind.SCHEMA),
        Operation.LIST_TABLES: _reads(TargetKind.SCHEMA),
        Operation.CREATE_TABLE: _writes(TargetKind.SCHEMA),
        Operation.GET_TABLE: _reads(TargetKind.TABLE),
        Operation.UPDATE_TABLE: _writes(TargetKind.TABLE),
        Operation.DROP_TABLE: _writes(TargetKind.TABLE),
        Operation.LIST_VIEWS: _reads(TargetKind.SCHEMA),
        Operation.CREATE_VIEW: _writes(TargetKind.SCHEMA),
        Operation.GET_VIEW: _reads(TargetKind.TABLE),
        Operation.UPDATE_VIEW: _writes(TargetKind.TABLE),
        Operation.DROP_VIEW: _writes(TargetKind.TABLE),
        Operation.ADD_COLUMN: _writes(TargetKind.TABLE),
        Operation.UPDATE_COLUMN: _writes(TargetKind.TABLE),
        Operation.DROP_COLUMN: _writes(TargetKind.TABLE),
        Operation.GET_SCHEMA_HISTORY: _reads(TargetKind.TABLE),
        Operation.GET_OBJECT: _reads(TargetKind.OBJECT),
        Operation.GET_OBJECT_HISTORY: _reads(TargetKind.OBJECT),
        Operation.UNDROP_OBJECT: _writes(TargetKind.OBJECT),
        Operation.LIST_COMMITS: _reads(TargetKind.WORKSPACE),
        Operation.GET_COMMIT: _reads(TargetKind.WORKSPACE),
        Operation.DIFF: _reads(TargetKind.WORKSPACE),
        Operation.GET_MANIFEST: _reads(TargetKind.WORKSPACE),
        Operation.QUERY: _reads(TargetKind.WORKSPACE),
        Operation.APPEND_EVENTS: _writes(TargetKind.WORKSPACE),
        Operation.GET_LAG: _reads(TargetKind.WORKSPACE),
        Operation.LIST_EXECUTIONS: _reads(TargetKind.WORKSPACE),
        Operation.GET_EXECUTION: _reads(TargetKind.WORKSPACE),
        Operation.LIST_TASKS: _reads(TargetKind.WORKSPACE),
        Operation.LIST_PARTITIONS: _reads(TargetKind.TABLE),
        Operation.GET_TABLE_HEALTH: _reads(TargetKind.TABLE),
        Operation.GET_STATISTICS: _reads(TargetKind.TABLE),
        Operation.GET_LINEAGE: _reads(TargetKind.TABLE),
        Operation.REPLAY_QUARANTINED: _writes(TargetKind.WORKSPACE),
        Operation.GET_FLOW_STATE: _reads(TargetKind.WORKSPACE),
        Operation.SUBMIT_RUN: _writes(TargetKind.WORKSPACE),
        Operation.LIST_RUNS: _reads(TargetKind.WORKSPACE),
        Operation.GET_RUN: _reads(TargetKind.WORKSPACE),
        Operation.LIST_RUN_TASKS: _reads(TargetKind.WORKSPACE),
        Operation.GET_TASK_LOG: _reads(TargetKind.WORKSPACE),
        Operation.CANCEL_RUN: _writes(TargetKind.WORKSPACE),
        Operation.RETRY_RUN: _writes(TargetKind.WORKSPACE),
        Operation.LEASE_TASKS: _writes(TargetKind.WORKSPACE),
        Operation.WATCH_ATTEMPTS: _reads(TargetKind.WORKSPACE),
        Operation.HEARTBEAT: _writes(TargetKind.WORKSPACE),
        Operation.COMPLETE_ATTEMPT: _writes(TargetKind.WORKSPACE),
        Operation.CHANGE_PARTITION_VALUES: _writes(TargetKind.WORKSPACE),
        Operation.PUBLISH_FILES: _writes(TargetKind.TABLE),
        Operation.LIST_FILES: _reads(TargetKind.TABLE),
        Operation.HEALTH: _PUBLIC,
        Operation.METRICS: _PUBLIC,
        Operation.OPENAPI: _PUBLIC,
        Operation.DOCS: _PUBLIC,
        Operation.SYNC_COMPACT: _INTERNAL,
        Operation.PUBLISH_ORPHAN_MARK: _INTERNAL,
        Operation.MERGE: _INTERNAL,
        Operation.NOTIFY: _INTERNAL,
        # A namespace is a schema. An operation that names several tables acts on their catalog.
        Operation.ICEBERG_GET_CONFIG: _reads(TargetKind.WORKSPACE),
        Operation.ICEBERG_LIST_NAMESPACES: _reads(TargetKind.CATALOG),
        Operation.ICEBERG_CREATE_NAMESPACE: _writes(TargetKind.CATALOG),
        Operation.ICEBERG_LOAD_NAMESPACE: _reads(TargetKind.SCHEMA),
        Operation.ICEBERG_NAMESPACE_EXISTS: _reads(TargetKind.SCHEMA),
        Operation.ICEBERG_DROP_NAMESPACE: _writes(TargetKind.SCHEMA),
        Operation.ICEBERG_UPDATE_PROPERTIES: _writes(TargetKind.SCHEMA),
        Operation.ICEBERG_LIST_TABLES: _reads(TargetKind.SCHEMA),
        Operation.ICEBERG_CREATE_TABLE: _writes(TargetKind.SCHEMA),
        Operation.ICEBERG_LOAD_TABLE: _reads(TargetKind.TABLE),
        Operation.ICEBERG_TABLE_EXISTS: _reads(TargetKind.TABLE),
        Operation.ICEBERG_UPDATE_TABLE: _writes(TargetKind.TABLE),
        Operation.ICEBERG_DROP_TABLE: _writes(TargetKind.TABLE),
        Operation.ICEBERG_UNREGISTER_TABLE: _writes(TargetKind.TABLE),
        Operation.ICEBERG_REGISTER_TABLE: _writes(TargetKind.SCHEMA),
        Operation.ICEBERG_RENAME_TABLE: _writes(TargetKind.CATALOG),
        Operation.ICEBERG_REPORT_METRICS: _reads(TargetKind.TABLE),
        Operation.ICEBERG_LOAD_CREDENTIALS: _reads(TargetKind.TABLE),
        Operation.ICEBERG_COMMIT_TRANSACTION: _writes(TargetKind.CATALOG),
        Operation.ICEBERG_LIST_VIEWS: _reads(TargetKind.SCHEMA),
        Operation.ICEBERG_CREATE_VIEW: _writes(TargetKind.SCHEMA),
        Operation.ICEBERG_LOAD_VIEW: _reads(TargetKind.TABLE),
        Operation.ICEBERG_VIEW_EXISTS: _reads(TargetKind.TABLE),
        Operation.ICEBERG_REPLACE_VIEW: _writes(TargetKind.TABLE),
        Operation.ICEBERG_DROP_VIEW: _writes(TargetKind.TABLE),
        Operation.ICEBERG_RENAME_VIEW: _writes(TargetKind.CATALOG),
        Operation.ICEBERG_REGISTER_VIEW: _writes(TargetKind.SCHEMA),
        Operation.ICEBERG_LIST_FUNCTIONS: _reads(TargetKind.SCHEMA),
        Operation.ICEBERG_LOAD_FUNCTION: _reads(TargetKind.SCHEMA),
    }
)

ICEBERG_OPERATIONS = frozenset(
    operation for operation in Operation if operation.startswith("iceberg_")
)
PUBLIC_OPERATIONS = frozenset(
    operation for operation, rule in ACCESS_MATRIX.items() if rule.role is None
)

_DENIED = "this identity may not do that"


@dataclass(frozen=True, kw_only=True)
class AccessTarget:
    """The object that an operation acts on; a workspace has no id besides its scope."""

    scope: Scope
    kind: TargetKind = TargetKind.WORKSPACE
    id: ObjectId | None = None


def authorize(principal: Principal, operation: Operation, target: AccessTarget) -> None:
    """Raise `Denied` unless the principal may do this to the target.

    A target of a kind that the operation does not act on is denied too: the check would be about one
    object and the action about another.
    """
    rule = ACCESS_MATRIX[operation]
    if rule.role is None:
        return
    if (
        principal.role is not rule.role
        or principal.scope != target.scope
        or target.kind not in rule.targets
    ):
        raise Denied(_DENIED)
