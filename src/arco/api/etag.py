"""ETags: the version of an object, or the manifest that a list was read from (RFC 9110).

The version of an object is the commit that last changed it and a mark of its id: a name may lead to another
object than before, and objects that were changed together share a commit.
"""

import re

from arco.catalog.decision import version_of
from arco.catalog.lookup import FoundObject
from arco.catalog.snapshot import Snapshot
from arco.core.errors import Invalid

_TAG = re.compile(r'\s*(W/)?"([\x21\x23-\x7e\x80-\xff]*)"\s*')
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_VERSION = re.compile(r"(0|[1-9][0-9]{0,17})-[0-9a-f]{8}")
NEVER = -1  # no commit has this number, so a tag that is none of ours never matches


def object_tag(found: FoundObject) -> str:
    """The ETag of one object."""
    return f'"{version_of(found)}"'


def snapshot_tag(snapshot: Snapshot) -> str:
    """The ETag of what follows from a manifest and the URL; a restored store may reuse its number."""
    return f'"{snapshot.number}-{snapshot.sha256[:12]}"'


def expected_version(if_match: str | None) -> int | str | None:
    """What an If-Match demands: the version of an object, or just its commit; None if any will do."""
    if if_match is None or if_match.strip() == "*":
        return None
    tags = _tags(if_match, "If-Match")
    if len(tags) != 1:
        raise Invalid("If-Match takes one ETag here")
    weak, tag = tags[0]
    if weak:
        return NEVER
    if _VERSION.fullmatch(tag) is not None:
        return tag
    return NEVER if _NUMBER.fullmatch(tag) is None else int(tag)


def is_unchanged(if_none_match: str, etag: str) -> bool:
    """Whether the caller has this very answer already; a header that is no list of tags says nothing."""
    if if_none_match.strip() == "*":
        return True
    try:
        return any(f'"{tag}"' == etag for _, tag in _tags(if_none_match, "If-None-Match"))
    except Invalid:
        return False


def _tags(text: str, header: str) -> list[tuple[bool, str]]:
    found: list[tuple[bool, str]] = []
    at = 0
    while match := _TAG.match(text, at):
        found.append((match[1] is not None, match[2]))
        at = match.end()
        if at == len(text):
            return found
        if text[at] != ",":
            break
        at += 1
    raise Invalid(f'{header} is an ETag in double quotes, such as "17-2c1aa269", or *')
