"""ETags: the commit that last changed an object, or the manifest that a list was read from (RFC 9110)."""

import re

from arco.catalog.snapshot import Snapshot
from arco.core.errors import Invalid

_TAG = re.compile(r'\s*(W/)?"([\x21\x23-\x7e\x80-\xff]*)"\s*')
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
NEVER = -1  # no commit has this number, so a tag that is none of ours never matches


def object_tag(commit: int) -> str:
    """The ETag of one object."""
    return f'"{commit}"'


def snapshot_tag(snapshot: Snapshot) -> str:
    """The ETag of what follows from a manifest and the URL; a restored store may reuse its number."""
    return f'"{snapshot.number}-{snapshot.sha256[:12]}"'


def expected_commit(if_match: str | None) -> int | None:
    """The commit that an If-Match demands; None if any will do."""
    if if_match is None or if_match.strip() == "*":
        return None
    tags = _tags(if_match, "If-Match")
    if len(tags) != 1:
        raise Invalid("If-Match takes one ETag here")
    weak, tag = tags[0]
    return NEVER if weak or _NUMBER.fullmatch(tag) is None else int(tag)


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
    raise Invalid(f'{header} is an ETag in double quotes, such as "17", or *')
