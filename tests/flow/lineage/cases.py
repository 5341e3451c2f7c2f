"""The cases of the matrix: queries with their expected lineage."""

from tests.flow.lineage.composite_queries import COMPOSITE_QUERIES
from tests.flow.lineage.expressions import EXPRESSIONS
from tests.flow.lineage.groupings import GROUPINGS
from tests.flow.lineage.python_code import PYTHON_CODE
from tests.flow.lineage.relations import INDIRECT_READS, RELATIONS
from tests.flow.lineage.writes import WRITES

CASES = (
    *COMPOSITE_QUERIES,
    *EXPRESSIONS,
    *RELATIONS,
    *GROUPINGS,
    *PYTHON_CODE,
    *INDIRECT_READS,
    *WRITES,
)
