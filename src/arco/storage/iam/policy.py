"""The target of a policy, and the patterns of the table as globs of AWS and Azure.

`*`, `?` and `${` are special to AWS, `*` and `?` to Azure, quotes and braces to Google. A name that has one
could widen a policy beyond its workspace, so it is refused, not escaped (law 10).

In globs `*` matches any characters, slashes too, and `?` exactly one. So one part of a path becomes `?*`,
and a second, negative glob excludes deeper paths. That works for a pattern with a fixed end
(`sequence/*/head.json`). Before an open end (`warehouse/*/metadata/*`) the negative glob would exclude
keys that are meant, so such a pattern stays loose.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from arco.core.errors import Invalid
from arco.core.scope import Scope
from arco.storage.key import check_prefix
from arco.storage.roles import EVERYTHING, FLOORS, RULES, Role, Verb, may, patterns

ANY_PART = "?*"

# What bucket and container names of all three clouds are made of.
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]\Z")
_PREFIX = re.compile(r"[A-Za-z0-9._=/-]*\Z")


class Cloud(StrEnum):
    """A cloud that policies can be rendered for."""

    AWS = "aws"
    AZURE = "azure"
    GCP = "gcp"


@dataclass(frozen=True)
class PolicyTarget:
    """One workspace in one bucket, where a policy applies."""

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
            # Policies find floors by this word; with it in the prefix every object would be one.
            raise Invalid(
                f"a bucket or prefix with a part {FLOORS.strip('/')!r} cannot be protected"
            )

    @property
    def base(self) -> str:
        """The key prefix of everything in the workspace."""
        return self.prefix + self.scope.prefix


def make_target(bucket: str, prefix: str, scope: Scope) -> PolicyTarget:
    """A target from user input: slashes around the prefix do not matter."""
    bare = prefix.strip("/")
    return PolicyTarget(bucket, f"{bare}/" if bare else "", scope)


def is_open(pattern: str) -> bool:
    """Whether a pattern matches everything below a path."""
    return pattern == EVERYTHING or pattern.endswith("/*")


def to_glob(pattern: str) -> str:
    """A glob that matches every key of the pattern, and perhaps deeper ones."""
    return pattern.replace("*", ANY_PART)


def to_listing_glob(pattern: str) -> str:
    """A glob for the prefix of a listing, which may end right at the slash."""
    return pattern[:-1].replace("*", ANY_PART) + "*" if is_open(pattern) else to_glob(pattern)


def loose_patterns() -> list[str]:
    """The patterns that no pair of globs can render exactly."""
    every = {pattern for rule in RULES for pattern in rule.patterns}
    return sorted(each for each in every if is_open(each) and each.count("*") > 1)


def too_deep(role: Role, verb: Verb) -> list[str]:
    """Globs of keys that `to_glob` matches although the table does not allow them."""
    deeper = {each for pattern in patterns(role, verb) for each in _deeper(pattern)}
    return sorted(each for each in deeper if not may(role, verb, each.replace(ANY_PART, "x")))


def floor_globs() -> list[str]:
    """Globs of the keys that are floors."""
    return [f"{FLOORS.removeprefix('/')}*", f"*{FLOORS}*"]


def _deeper(pattern: str) -> Iterator[str]:
    if is_open(pattern):
        return
    pieces = pattern.split("*")
    for star in range(1, len(pieces)):
        head, tail = ANY_PART.join(pieces[:star]), ANY_PART.join(pieces[star:])
        yield f"{head}{ANY_PART}/{ANY_PART}{tail}"
