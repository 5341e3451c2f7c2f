"""Settings by which Spark reaches the stores of the tables.

They hold no credentials: Spark finds them on each of its machines as other cloud clients do. On S3, files
are written to their final paths and become visible when their job is committed, as S3 can move them only by
copying.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from arco.core.errors import Unsupported
from arco.flow.spark.jars import Jars, s3_jars
from arco.flow.worker.ports import CatalogStore

_S3 = ("s3", "s3a")
_LOCAL = ("", "file")
_JARS = ("spark.jars", "spark.jars.packages")
_REGION = "us-east-1"  # for stores without regions
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
# Properties of Iceberg's clients, and their names in Hadoop's S3A.
_S3A_NAMES = {
    "s3.endpoint": "endpoint",
    "s3.region": "endpoint.region",
    "s3.path-style-access": "path.style.access",
}
_NEEDS = {
    "gs": "org.apache.iceberg:iceberg-gcp-bundle for Iceberg, a gcs-connector for plain Parquet",
    "abfss": "org.apache.iceberg:iceberg-azure-bundle for Iceberg, hadoop-azure for plain Parquet",
}


@dataclass(frozen=True)
class StoreSettings:
    """Jars and settings for all stores that Spark has to reach; `catalog` goes to each catalog."""

    jars: Jars = field(default_factory=Jars)
    settings: Mapping[str, str] = field(default_factory=dict)
    catalog: Mapping[str, str] = field(default_factory=dict)


def store_settings(
    store: CatalogStore,
    elsewhere: tuple[str, ...],
    user_settings: Mapping[str, str],
    region: str | None,
) -> StoreSettings:
    """Settings for a store and for tables elsewhere; `Unsupported` if Spark cannot reach one of them."""
    schemes = {urlsplit(each).scheme for each in (store.location, *elsewhere)}
    has_jars = any(user_settings.get(each) for each in _JARS)
    for scheme in sorted(schemes - {*_LOCAL, *_S3}):
        _check_scheme(scheme, has_jars=has_jars)
    if schemes.isdisjoint(_S3):
        return StoreSettings()
    bucket = _bucket_settings(store, region)
    return StoreSettings(s3_jars(), {**_ON_S3, **bucket}, _catalog_settings(store, region))


def _check_scheme(scheme: str, *, has_jars: bool) -> None:
    if scheme == "memory":
        raise Unsupported(
            "the tables are in the memory of the server (memory://), which Spark cannot read: start the "
            "server with --root or --store"
        )
    if not has_jars:
        needs = f" ({_NEEDS[scheme]})" if scheme in _NEEDS else ""
        raise Unsupported(
            f"the tables are on {scheme}://, and Arco ships no jars for Spark to read it: pass them "
            f"with --conf spark.jars.packages=...{needs}, together with Iceberg's own, or use a store on "
            "S3 or on a disk"
        )


def _bucket_settings(store: CatalogStore, region: str | None) -> dict[str, str]:
    """Settings for the store's bucket alone; other buckets that user code reads keep the defaults."""
    parts = urlsplit(store.location)
    if parts.scheme not in _S3:
        return {}
    properties = {**store.settings, **_catalog_settings(store, region)}
    if region:
        properties.setdefault("s3.region", region)
    prefix = f"{_S3A}.bucket.{parts.netloc}"
    return {
        f"{prefix}.{s3a_name}": properties[name]
        for name, s3a_name in _S3A_NAMES.items()
        if name in properties
    }


def _catalog_settings(store: CatalogStore, region: str | None) -> dict[str, str]:
    """A region if none is set: S3 clients need one to start, even for stores that ignore it."""
    if region or "s3.endpoint" not in store.settings or "s3.region" in store.settings:
        return {}
    return {"client.region": _REGION, "s3.region": _REGION}
