"""The tables of `system` that are made of the tables of state of Tier 2.

Most are shown as they are folded. The observations of an edge are counted when they are asked for, and
what was quarantined is shown for all domains together.
"""

from collections.abc import Sequence

import pyarrow as pa

from arco.fold.tier2 import EDGE_OBSERVATIONS, LINEAGE_DOMAIN, LINEAGE_EDGES, QUARANTINE
from arco.query.joined import joined
from arco.query.needs import DOMAIN_COLUMN, State
from arco.query.schemas import OBSERVATIONS, SYSTEM
from arco.query.views import States

_EDGE = LINEAGE_EDGES.key


def make_operations(
    name: str, needed: Sequence[State], states: States, *, with_counts: bool
) -> pa.Table:
    """One table of `system`, of these tables of state; counts are null unless they are wanted."""
    schema = SYSTEM[name]
    if name == QUARANTINE.name:
        parts = [_of_domain(states, state) for state in needed]
        return pa.concat_tables([schema.empty_table(), *parts])
    if name == LINEAGE_EDGES.name:
        rows = states.rows(LINEAGE_EDGES, LINEAGE_DOMAIN)
        return _counted(rows, states, schema) if with_counts else _uncounted(rows, schema)
    [state] = needed
    return states.rows(state.table, state.domain).select(schema.names)


def _of_domain(states: States, state: State) -> pa.Table:
    rows = states.rows(state.table, state.domain).select(state.table.visible)
    names = pa.repeat(pa.scalar(state.domain, pa.string()), rows.num_rows)
    return rows.add_column(0, DOMAIN_COLUMN, names)


def _counted(rows: pa.Table, states: States, schema: pa.Schema) -> pa.Table:
    seen = states.rows(EDGE_OBSERVATIONS, LINEAGE_DOMAIN)
    counts = seen.group_by(list(_EDGE)).aggregate([([], "count_all")])
    counts = counts.rename_columns([*_EDGE, OBSERVATIONS])
    made = joined(rows, counts, _EDGE, (OBSERVATIONS,), schema)
    at = schema.get_field_index(OBSERVATIONS)
    return made.set_column(at, schema.field(at), made.column(at).fill_null(0))


def _uncounted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return joined(rows, None, _EDGE, (OBSERVATIONS,), schema)
