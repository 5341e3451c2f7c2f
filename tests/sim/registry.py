"""What there is to run: every scenario, and every mutant with the scenario that must notice it."""

from collections.abc import Callable

from .catalog_mutants import CATALOG_MUTANTS
from .catalog_scenario import CatalogScenario
from .chain_mutants import CHAIN_MUTANTS
from .chain_scenario import ChainScenario
from .claim_scenario import ClaimScenario
from .iceberg_mutants import ICEBERG_MUTANTS
from .iceberg_scenario import IcebergScenario
from .ledger_mutants import LEDGER_MUTANTS
from .mutants import Mutant
from .operations_mutants import OPERATIONS_MUTANTS
from .operations_scenario import OperationsScenario
from .scenario import Scenario
from .stream_scenario import StreamScenario

ScenarioFactory = Callable[[], Scenario]

SCENARIOS: dict[str, ScenarioFactory] = {
    ChainScenario.name: ChainScenario,
    ClaimScenario.name: ClaimScenario,
    StreamScenario.name: StreamScenario,
    CatalogScenario.name: CatalogScenario,
    IcebergScenario.name: IcebergScenario,
    OperationsScenario.name: OperationsScenario,
}

# A run of these takes so much longer that a survey of all scenarios gives them only every n-th seed.
EVERY_NTH: dict[str, int] = {
    StreamScenario.name: 2,
    CatalogScenario.name: 5,
    IcebergScenario.name: 20,
    OperationsScenario.name: 10,
}

MUTANTS: dict[str, tuple[Mutant, ScenarioFactory]] = {
    **{mutant.name: (mutant, ChainScenario) for mutant in CHAIN_MUTANTS},
    **{mutant.name: (mutant, factory) for mutant, factory in LEDGER_MUTANTS},
    **{mutant.name: (mutant, factory) for mutant, factory in CATALOG_MUTANTS},
    **{mutant.name: (mutant, factory) for mutant, factory in ICEBERG_MUTANTS},
    **{mutant.name: (mutant, OperationsScenario) for mutant in OPERATIONS_MUTANTS},
}
