"""Stores: what Spark has to know to reach the tables of an Arco, wherever they lie.

Credentials are never among it: Spark finds them as any program of the cloud does, on each machine that
works for it. On S3, files are written where they are to stay and become visible when their job is
committed: nothing is moved, which S3 can do only by copying.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from arco.core.errors import Unsupported
from arco.flow.spark.jars import Jars, s3_jars
from arco.flow.worker.ports import LakeStore

_S3 = ("s3", "s3a")
_LOCAL = ("", "file")
_JARS = ("spark.jars", "spark.jars.packages")
_REGION = "us-east-1"  # of stores that know no regions
_S3A = "spark.hadoop.fs.s3a"
_FACTORY = "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"
_ON_S3 = {
    "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    f"{_S3A}.aws.credentials.provider": (
        "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
    ),
    f"{_S3A}.committer.name": "magic",
    "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3": _FACTORY,
    "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a": _FACTORY,
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol"
    ),
    "spark.sql.parquet.output.committer.class": (
        "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter"
    ),
}
# What Iceberg's clients are told of a store, in the words of files on S3.
_WORDS = {
    "s3.endpoint": "endpoint",
    "s3.region": "endpoint.region",
    "s3.path-style-access": "path.style.access",
}
_NEEDS = {
    "gs": "org.apache.iceberg:iceberg-gcp-bundle for Iceberg, a gcs-connector for plain Parquet",
    "abfss": "org.apache.iceberg:iceberg-azure-bundle for Iceberg, hadoop-azure for plain Parquet",
}


@dataclass(frozen=True)
class StoreDoor:
    """What Spark is told of all stores that it has to reach; `catalog` goes to each catalog."""

    jars: Jars = field(default_factory=Jars)
    settings: Mapping[str, str] = field(default_factory=dict)
    catalog: Mapping[str, str] = field(default_factory=dict)


def door_to(
    store: LakeStore, elsewhere: tuple[str, ...], given: Mapping[str, str], region: str | None
) -> StoreDoor:
    """The way to a store and to tables elsewhere; `given` are settings of the user's own.

    `Unsupported` for a store that Spark cannot reach with what it has.
    """
    schemes = {urlsplit(each).scheme for each in (store.location, *elsewhere)}
    brings_jars = any(given.get(each) for each in _JARS)
    for scheme in sorted(schemes - {*_LOCAL, *_S3}):
        _check(scheme, brings_jars=brings_jars)
    if schemes.isdisjoint(_S3):
        return StoreDoor()
    own = _own_bucket(store, region)
    return StoreDoor(s3_jars(), {**_ON_S3, **own}, _catalog(store, region))


def _check(scheme: str, *, brings_jars: bool) -> None:
    if scheme == "memory":
        raise Unsupported(
            "the tables lie in the memory of another process, where Spark cannot reach them: start "
            "that Arco with --root or --store"
        )
    if not brings_jars:
        needs = f" ({_NEEDS[scheme]})" if scheme in _NEEDS else ""
        raise Unsupported(
            f"the tables lie on {scheme}://, and Arco brings no jars by which Spark reaches it: name "
            f"them with --conf spark.jars.packages=...{needs}, and Iceberg's own with them, or use a "
            "store on S3 or a disk"
        )


def _own_bucket(store: LakeStore, region: str | None) -> dict[str, str]:
    """How the store's own bucket is reached; others, which user code may read, are reached as usual."""
    parts = urlsplit(store.location)
    if parts.scheme not in _S3:
        return {}
    said = {**store.settings, **_catalog(store, region)}
    if region:
        said.setdefault("s3.region", region)
    own = {word: said[name] for name, word in _WORDS.items() if name in said}
    return {f"{_S3A}.bucket.{parts.netloc}.{word}": value for word, value in own.items()}


def _catalog(store: LakeStore, region: str | None) -> dict[str, str]:
    """A region where nobody names one: clients of S3 do not start without, even where it says nothing."""
    if region or "s3.endpoint" not in store.settings or "s3.region" in store.settings:
        return {}
    return {"client.region": _REGION, "s3.region": _REGION}
