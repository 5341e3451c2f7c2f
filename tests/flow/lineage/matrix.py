"""The matrix of cases: `python -m tests.flow.lineage.matrix [JAR]`, on the installed Spark.

Prints one line for each query and exits 1 if one has another lineage than expected. Without the jar
of Iceberg, the queries that need it are listed as left out.
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from arco.flow.lineage import Dataset, LineageObservation
from tests.flow.lineage.cases import CASES
from tests.flow.lineage.expected_lineage import Case, lineage_of
from tests.flow.lineage.sample_tables import new_session, open_sample_session, root_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Outcome:
    """What was observed of one case, and what watching cost."""

    case: Case
    observation: LineageObservation
    spent_ms: float

    @property
    def is_right(self) -> bool:
        """Whether it is as expected, with a note if it is not exact."""
        has_reason = bool(self.observation.note) == (self.case.soundness != "exact")
        are_read = not self.case.reads_differ(self.observation)
        return lineage_of(self.observation) == self.case.expected() and has_reason and are_read

    def difference(self) -> str:
        """The observed and the expected lineage."""
        reads = self.case.reads_differ(self.observation)
        lineages = f"observed: {lineage_of(self.observation)}\n  expected: {self.case.expected()}"
        return f"{lineages}\n  {self.observation.note} {reads}"


def run_case(spark: "SparkSession", case: Case) -> Outcome:
    """Run a case in a new session, and watch it."""
    from arco.flow.spark.lineage import Capture

    session = new_session(spark)
    capture = Capture(session)
    try:
        target = write_case(session, case)
        observation = capture.finish(target)
        return Outcome(case, observation, max(capture.spent_ms(), default=0.0))
    finally:
        capture.close()


def write_case(session: "SparkSession", case: Case) -> Dataset:
    """Let a case write; what it has written."""
    if case.write is not None:
        return case.write(session)
    assert case.frame is not None
    path = root_of(session) / "written" / case.name.replace(" ", "_").replace(",", "")
    case.frame(session).write.mode("overwrite").parquet(str(path))
    return Dataset(path=str(path))


def fitting(version: str, *, iceberg: bool) -> list[Case]:
    """The cases that this Spark can run."""
    return [
        case
        for case in CASES
        if (iceberg or not case.needs_iceberg)
        and not ("from 4.1" in case.tags and version.startswith("4.0"))
    ]


def main() -> int:
    jar = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as root:
        spark = open_sample_session(Path(root), jar)
        cases = fitting(spark.version, iceberg=jar is not None)
        left_out = [case.name for case in CASES if case not in cases]
        outcomes = []
        for case in cases:
            outcome = run_case(spark, case)
            outcomes.append(outcome)
            mark = "right" if outcome.is_right else "WRONG"
            print(
                f"{mark}  {outcome.spent_ms:5.0f} ms  {outcome.observation.soundness:10} {case.name}"
            )
            if not outcome.is_right:
                print(f"  {outcome.difference()}")
        right = sum(outcome.is_right for outcome in outcomes)
        print(f"Spark {spark.version}: {right} of {len(outcomes)} right; left out: {left_out}")
        spark.stop()
    return 0 if right == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
