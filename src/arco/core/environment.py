"""The environment of programs that Arco starts: no secret goes to one that does not need it."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

# By these a process proves to be Arco or one of its users.
OWN_SECRETS = frozenset(
    {"ARCO_SERVICE_TOKEN", "ARCO_SIGNING_KEY_FILE", "ARCO_TOKEN", "ARCO_TOKEN_FILE"}
)

# What Python, Java, Spark and its clusters go by.
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
# What leads to a store and opens it, by its scheme.
_OF_NETWORK = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_")
_OF_STORES = {
    "s3": ("AWS_",),
    "gs": ("CLOUDSDK_", "GCE_METADATA_", "GOOGLE_"),
    "az": ("AZURE_", "IDENTITY_", "MSI_"),
}


def compaction_environment(environ: Mapping[str, str], scheme: str) -> dict[str, str]:
    """What Spark needs to compact events: nothing of Arco's, and of clouds only what opens the store."""
    store = _OF_STORES.get(scheme, ())
    prefixes = (*_PREFIXES, *store, *(_OF_NETWORK if store else ()))
    return {
        name: value
        for name, value in environ.items()
        if name in _NAMES or name.upper().startswith(prefixes)
    }


def pipeline_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What Spark needs to run a user's code: all that is the user's, without Arco's own secrets."""
    return {name: value for name, value in environ.items() if name not in OWN_SECRETS}


@contextmanager
def started_with(environment: Mapping[str, str]) -> Iterator[None]:
    """A block in which programs are started with this part of our environment.

    Spark gives its JVM all of `os.environ`, so what is not for it is taken out for so long.
    """
    kept_back = {name: value for name, value in os.environ.items() if name not in environment}
    for name in kept_back:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(kept_back)
