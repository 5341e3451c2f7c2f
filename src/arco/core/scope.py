"""The scope of a tenant's workspace, and the only module that spells it as a path (law 10).

Names are lower-case ASCII, because a local disk may fold case or normalise Unicode, and two tenants
must never share one directory (P4). The `tenant=` and `workspace=` labels and the closing slash
keep `a` from being a prefix of `ab`.
"""

import re
from dataclasses import dataclass
from functools import cached_property

from arco.core.errors import Invalid

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?\Z")


@dataclass(frozen=True)
class Scope:
    """One workspace of one tenant."""

    tenant: str = "default"
    workspace: str = "default"

    def __post_init__(self) -> None:
        for label, name in (("tenant", self.tenant), ("workspace", self.workspace)):
            if not _NAME.match(name):
                raise Invalid(
                    f"{label} {name[:80]!r} is not a valid name: use 1 to 63 characters of "
                    "a-z, 0-9, '-' and '_', starting and ending with a letter or digit"
                )

    @cached_property
    def prefix(self) -> str:
        """The key prefix of everything in this scope, below the root of the store."""
        return f"tenant={self.tenant}/workspace={self.workspace}/"
