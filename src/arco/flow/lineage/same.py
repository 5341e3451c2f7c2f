"""Same: whether what somebody asks for is what was written, though each spells it in his own way."""

import re

from arco.flow.lineage.observation import Dataset

_LOCAL = re.compile(r"^file:/*")
_S3 = re.compile(r"^s3[an]:")


def is_same(wanted: Dataset, found: Dataset) -> bool:
    """Whether a name is the same up to a catalog that only one of them says, or a path lies within."""
    if wanted.name is not None and found.name is not None:
        return _is_same_name(wanted.name.casefold(), found.name.casefold())
    if wanted.path is not None and found.path is not None:
        outer, inner = plain_path(wanted.path), plain_path(found.path)
        return inner == outer or inner.startswith(outer + "/")
    return False


def _is_same_name(one: str, other: str) -> bool:
    return one == other or one.endswith("." + other) or other.endswith("." + one)


def plain_path(path: str) -> str:
    """One spelling of a path."""
    return _S3.sub("s3:", _LOCAL.sub("/", path)).rstrip("/")
