"""How Spark is started for these tests: small, and ready soon rather than fast."""

import os
from pathlib import Path

MEMORY = "640m"
SETTINGS = {
    "spark.default.parallelism": "2",
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}
FLAGS = (
    *("--master", "local[1]", "--memory", MEMORY),
    *(word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")),
)

_JARS = Path(__file__).parents[3] / ".cache" / "jars" / "spark"


def iceberg_jar() -> Path | None:
    """The jar that makes Spark know Iceberg, if it is here."""
    named = os.environ.get("ARCO_ICEBERG_JAR")
    found = [Path(named)] if named else sorted(_JARS.glob("*.jar"))
    return found[0] if found else None
