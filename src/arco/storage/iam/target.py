"""The target of a policy: one workspace in one bucket, with no character that a policy would expand.

`*`, `?` and `${` mean something to AWS, `*` and `?` to Azure, quotes and braces to Google. A name that
holds one could widen a policy beyond its workspace, so it is refused, not escaped (law 10).
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum

from arco.core.errors import Invalid
from arco.core.scope import Scope
from arco.storage.key import check_prefix
from arco.storage.roles import FLOORS

# What bucket and container names of all three clouds are made of.
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]\Z")
_PREFIX = re.compile(r"[A-Za-z0-9._=/-]*\Z")


class Cloud(StrEnum):
    """A cloud that policies can be rendered for."""

    AWS = "aws"
    AZURE = "azure"
    GCP = "gcp"


@dataclass(frozen=True)
class Target:
    """Where a policy applies."""

    bucket: str
    prefix: str = ""  # of the store inside the bucket; empty, or with a closing slash
    scope: Scope = field(default_factory=Scope)

    def __post_init__(self) -> None:
        if not _BUCKET.match(self.bucket):
            raise Invalid(
                f"{self.bucket[:80]!r} is not the name of a bucket or container: use 3 to 63 of "
                "a-z, 0-9, '.', '_' and '-'"
            )
        if not _PREFIX.match(self.prefix):
            raise Invalid(
                f"the prefix {self.prefix[:80]!r} cannot be written into a policy: use letters, "
                "digits, '.', '_', '=', '-' and '/' only"
            )
        check_prefix(self.prefix)
        if FLOORS in f"/{self.bucket}/{self.prefix}":
            # Policies find floors by this word; a prefix that holds it would make everything one.
            raise Invalid(
                f"a bucket or prefix with a part {FLOORS.strip('/')!r} cannot be protected"
            )

    @property
    def base(self) -> str:
        """The key prefix of everything in the workspace."""
        return self.prefix + self.scope.prefix


def make_target(bucket: str, prefix: str, scope: Scope) -> Target:
    """A target from what a person typed: slashes around the prefix do not matter."""
    bare = prefix.strip("/")
    return Target(bucket, f"{bare}/" if bare else "", scope)
