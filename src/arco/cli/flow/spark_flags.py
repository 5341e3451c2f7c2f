"""The flags that say on which SparkSettings tasks are carried out."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from arco.core.errors import Invalid
from arco.server.settings import LOCAL_MASTER, SparkSettings, require_spark

_MEMORY = re.compile(r"[1-9][0-9]*[kmgt]", re.IGNORECASE)


def _lines(_kind: Any, text: str, **_how: Any) -> list[str]:
    """The values of a flag that may be repeated, out of its variable: one in each line."""
    return text.splitlines()


Repeated = Parameter(negative="", show_default=False, metavar="KEY=VALUE", env_var_split=_lines)


@Parameter(name="*")
@dataclass(frozen=True)
class OnSpark:
    """Flags that say on which SparkSettings tasks are carried out.

    Parameters
    ----------
    master
        SparkSettings's master: local[*] for this machine, or spark://host:7077, yarn, k8s://https://host.
    conf
        A setting of SparkSettings, as spark.sql.shuffle.partitions=8; may be repeated.
    memory
        The memory of SparkSettings's driver, such as 2g.
    """

    master: str = LOCAL_MASTER
    conf: Annotated[tuple[str, ...], Repeated] = ()
    memory: Annotated[str | None, Parameter(metavar="SIZE")] = None

    def check(self) -> None:
        """Refuse what cannot be before anything is opened: flags, a missing Java, a missing Spark."""
        from arco.cli.flow.flags import pairs

        if self.memory is not None and not _MEMORY.fullmatch(self.memory):
            raise Invalid(f"--memory takes a size such as 2g or 512m, not {self.memory[:80]!r}")
        pairs("--conf", self.conf)
        SparkSettings(master=self.master).check()
        require_spark()
