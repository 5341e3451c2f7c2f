"""Records plans as fixtures: `python -m tests.flow.lineage.record JAR`, after a case has changed.

The tests of the parser read them, so that they need no Spark.
"""

import json
import re
import sys
import tempfile
from pathlib import Path

from arco.flow.lineage.observation import Dataset
from arco.flow.lineage.plan_tree import Leaf, PlanFacts
from tests.flow.lineage.cases import CASES
from tests.flow.lineage.matrix import write_case
from tests.flow.lineage.sample_tables import new_session, open_sample_session

FOLDER = Path(__file__).parent / "recorded"


def file_of(name: str) -> Path:
    """Where the plan of a case is."""
    return FOLDER / (re.sub(r"\W+", "_", name) + ".json")


def load(name: str) -> tuple[str, PlanFacts]:
    """A recorded plan, and what its JSON lacks."""
    kept = json.loads(file_of(name).read_text())
    leaves = {
        int(key): Leaf((Dataset(leaf["name"]),), frozenset(leaf["partition_columns"]))
        for key, leaf in kept["leaves"].items()
    }
    expansions = {int(key): tuple(each) for key, each in kept["expansions"].items()}
    target = None if kept["target"] is None else Dataset(kept["target"])
    return json.dumps(kept["plan"]), PlanFacts(leaves, expansions, target)


def main() -> None:
    from arco.flow.spark.lineage import Capture

    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as root:
        spark = open_sample_session(Path(root), Path(sys.argv[1]))
        for case in CASES:
            if "fixture" not in case.tags:
                continue
            session = new_session(spark)
            capture = Capture(session)
            write_case(session, case)
            capture.reads()
            (query,) = [each for each in capture._queries if each.text]
            assert query.text is not None
            assert query.facts is not None
            kept = {
                "spark": spark.version,
                "leaves": {
                    str(key): {
                        "name": leaf.datasets[0].name,
                        "partition_columns": sorted(leaf.partition_columns),
                    }
                    for key, leaf in query.facts.leaves.items()
                },
                "expansions": {str(key): each for key, each in query.facts.expansions.items()},
                "target": None if query.facts.target is None else query.facts.target.name,
                "plan": json.loads(query.text.replace(root, "/data")),
            }
            file_of(case.name).write_text(json.dumps(kept, indent=1) + "\n")
            capture.close()
        spark.stop()


if __name__ == "__main__":
    main()
