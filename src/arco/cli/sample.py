"""A small sample catalog, for a first look around (`arco up --sample`)."""

from arco.catalog.change import change
from arco.catalog.commit import Committer
from arco.catalog.ddl import ColumnSpec, CreateSchema, CreateTable, Ddl, SchemaName
from arco.catalog.model import Sensitivity, TableFormat
from arco.core.errors import AlreadyExists
from arco.iceberg.desk import Caller
from arco.iceberg.native import NativeTables

_AUTHOR = "user:sample"

_SALES = SchemaName("default", ("sales",))
_WEB = SchemaName("default", ("raw", "web"))

_REQUESTS: tuple[Ddl, ...] = (
    CreateSchema(catalog="default", name="sales", comment="What was ordered, by whom"),
    CreateSchema(catalog="default", name="raw", comment="As it came in"),
    CreateSchema(catalog="default", parent=("raw",), name="web", comment="From the web shop"),
    CreateTable(
        schema=_SALES,
        name="customers",
        format=TableFormat.ICEBERG,
        comment="One row a customer",
        tags=("gold",),
        columns=(
            ColumnSpec(name="customer_id", data_type="bigint", nullable=False),
            ColumnSpec(
                name="email",
                data_type="string",
                pii_type="EMAIL",
                sensitivity=Sensitivity.CONFIDENTIAL,
            ),
            ColumnSpec(name="country", data_type="string"),
            ColumnSpec(name="since", data_type="date"),
        ),
    ),
    CreateTable(
        schema=_SALES,
        name="orders",
        format=TableFormat.ICEBERG,
        comment="One row an order",
        properties={"team": "sales"},
        columns=(
            ColumnSpec(name="order_id", data_type="bigint", nullable=False),
            ColumnSpec(name="customer_id", data_type="bigint", nullable=False),
            ColumnSpec(name="amount", data_type="decimal(12,2)"),
            ColumnSpec(name="ordered_at", data_type="timestamp"),
            ColumnSpec(name="lines", data_type="array<struct<sku:string,pieces:int>>"),
        ),
    ),
    CreateTable(
        schema=_WEB,
        name="clicks",
        format=TableFormat.PARQUET,
        columns=(
            ColumnSpec(name="at", data_type="timestamp"),
            ColumnSpec(name="ip", data_type="string", pii_type="IP_ADDRESS"),
            ColumnSpec(name="page", data_type="string"),
        ),
    ),
)


async def fill(committer: Committer, native: NativeTables) -> bool:
    """Make the sample's objects; whether any was, since those that are there stay as they are."""
    clock, is_new = committer.reader.store.runtime.clock, False
    for request in _REQUESTS:
        caller = Caller(
            actor=_AUTHOR,
            engine="arco up --sample",
            key=None,
            operation=type(request).__name__,
            arrived_ms=clock.elapsed_ms(),
            update_source="native",
        )
        try:
            if await native.carry_out(request, caller) is None:
                await change(committer, request, _AUTHOR)
            is_new = True
        except AlreadyExists:
            continue
    return is_new
