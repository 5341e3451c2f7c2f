"""How Spark is started for these tests: small, and ready soon rather than fast."""

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
