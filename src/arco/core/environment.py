"""The environment of programs that Arco starts: no secret goes to one that does not need it."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

# With these a process authenticates as Arco or as one of its users.
OWN_SECRETS = frozenset(
    {"ARCO_SERVICE_TOKEN", "ARCO_SIGNING_KEY_FILE", "ARCO_TOKEN", "ARCO_TOKEN_FILE"}
)

# What Python, Java, Spark and its clusters read.
_NAMES = frozenset(
    (
        *(
            "CONDA_PREFIX",
            "HOME",
            "HOSTNAME",
            "LANG",
            "LANGUAGE",
            "LD_LIBRARY_PATH",
            "LOGNAME",
            "MALLOC_ARENA_MAX",
            "PATH",
        ),
        *("PWD", "SHELL", "TEMP", "TMP", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"),
        "ARCO_SPARK_WORKER_MEMORY_MB",
    )
)
_PREFIXES = (
    *("HADOOP_", "JAVA_", "JDK_", "KRB5", "KUBERNETES_", "LC_", "PYSPARK_", "PYTHON", "SPARK_"),
    *("XDG_", "YARN_"),
)
# Network settings and credentials of a store, by its scheme.
_NETWORK_PREFIXES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_")
_STORE_PREFIXES = {
    "s3": ("AWS_",),
    "gs": ("CLOUDSDK_", "GCE_METADATA_", "GOOGLE_"),
    "az": ("AZURE_", "IDENTITY_", "MSI_"),
}


def compaction_environment(environ: Mapping[str, str], scheme: str) -> dict[str, str]:
    """The environment for compacting events: no secret of Arco, and only the store's credentials."""
    store = _STORE_PREFIXES.get(scheme, ())
    prefixes = (*_PREFIXES, *store, *(_NETWORK_PREFIXES if store else ()))
    return {
        name: value
        for name, value in environ.items()
        if name in _NAMES or name.upper().startswith(prefixes)
    }


def pipeline_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for running a user's code: everything but Arco's own secrets."""
    return {name: value for name, value in environ.items() if name not in OWN_SECRETS}


@contextmanager
def started_with(environment: Mapping[str, str]) -> Iterator[None]:
    """A block in which started programs get only `environment`.

    Spark passes all of `os.environ` to its JVM, so every other variable is removed during the block.
    """
    removed = {name: value for name, value in os.environ.items() if name not in environment}
    for name in removed:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(removed)
