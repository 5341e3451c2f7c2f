"""The cases of the matrix: queries with their truth."""

from tests.flow.lineage.detours import DETOURS
from tests.flow.lineage.everyday import EVERYDAY
from tests.flow.lineage.expressions import EXPRESSIONS
from tests.flow.lineage.groupings import GROUPINGS
from tests.flow.lineage.python_code import PYTHON_CODE
from tests.flow.lineage.relations import RELATIONS
from tests.flow.lineage.writes import WRITES

CASES = (
    *EVERYDAY,
    *EXPRESSIONS,
    *RELATIONS,
    *GROUPINGS,
    *PYTHON_CODE,
    *DETOURS,
    *WRITES,
)
