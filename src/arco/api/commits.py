"""Handlers of what was published: commits, manifests, and the difference between two manifests."""

import re

from arco.api.context import HandlerContext, list_reply
from arco.api.http.limits import MAX_PAGE_COLUMNS
from arco.api.http.reply import Reply, snapshot_tag
from arco.api.http.request import AtQuery, Call, DiffQuery, PageQuery, QueryParams
from arco.api.http.snapshots import MALFORMED, PageCursor, decode_page_token, next_token, take_page
from arco.api.responses import CommitEntry, CommitPage, DiffChange, DiffPage, ManifestEntry
from arco.catalog.diff import Difference, DiffPosition, diff
from arco.catalog.history import CommitWithManifest, get_commit, list_commits
from arco.catalog.snapshot import Snapshot
from arco.core import json
from arco.core.errors import Invalid, NotFound

_DIFF_KEY = re.compile(r"([0-9]{1,18}),([0-9]{1,18}),([0-9a-f-]{36})")


class CommitHandlers:
    """List and read commits, read manifests, and compare them."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context

    async def page(self, call: Call[PageQuery, None]) -> Reply:
        """List commits, newest first."""
        query = call.query
        snapshot, cursor = await self._context.reads.pinned(
            query.page_token, query.as_of, call.head
        )
        before = snapshot.number + 1 if cursor is None else cursor.key_number
        commits = await list_commits(
            self._context.services.reader, before=before, limit=query.page_size + 1
        )
        entries = [_entry(each) for each in commits]
        items, last_key = take_page(entries, query.page_size, lambda each: str(each.number))
        page = CommitPage(items=tuple(items), next_page_token=next_token(snapshot, last_key))
        return list_reply(page, snapshot)

    async def get(self, call: Call[QueryParams, None]) -> Reply:
        """One commit."""
        text = call.path_params["number"]
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise Invalid("a commit has a number from 0 on")
        entry = _entry(await get_commit(self._context.services.reader, int(text)))
        return Reply(200, json.encode(entry), headers={"ETag": f'"{entry.sha256}"'})

    async def manifest(self, call: Call[AtQuery, None]) -> Reply:
        """What is published in a domain."""
        domain = call.path_params["domain"]
        readers = {"catalog": self._context.services.reader, **self._context.services.domains}
        if domain not in readers:
            raise NotFound(f"there is no domain {domain[:80]!r}; there are {', '.join(readers)}")
        snapshot = await readers[domain].at(call.query.as_of)
        entry = ManifestEntry(
            domain=domain,
            number=snapshot.number,
            sha256=snapshot.sha256 or None,
            created_at=snapshot.created_at,
            manifest=snapshot.manifest,
        )
        return Reply(200, json.encode(entry), headers={"ETag": snapshot_tag(snapshot)})

    async def diff(self, call: Call[DiffQuery, None]) -> Reply:
        """What changed from one point to another."""
        query, reads, reader = call.query, self._context.reads, self._context.services.reader
        after = None
        if query.page_token is None:
            old = await reads.at(query.from_)
            new = await reads.at(query.to, call.head)
        else:
            cursor = decode_page_token(query.page_token)
            start, after = _split_diff_key(cursor)
            old = await reader.at_number(start)
            new = await reader.at_number(cursor.number)
        differences = await diff(
            reader.store,
            old,
            new,
            limit=query.page_size,
            most_columns=MAX_PAGE_COLUMNS,
            after=after,
        )
        page = DiffPage(
            from_=old.number,
            to=new.number,
            items=tuple(_change(each) for each in differences.items),
            next_page_token=_diff_token(old, new, differences.rest),
        )
        return list_reply(page, new)


def _entry(commit: CommitWithManifest) -> CommitEntry:
    return CommitEntry(
        number=commit.number,
        sha256=commit.sha256,
        published_at=commit.published_at,
        commit=commit.commit,
    )


def _diff_token(old: Snapshot, new: Snapshot, last: DiffPosition | None) -> str | None:
    """The token of a page of differences: the numbers of both manifests, and the last change."""
    return None if last is None else next_token(new, f"{old.number},{last.commit},{last.id}")


def _split_diff_key(cursor: PageCursor) -> tuple[int, DiffPosition]:
    match = _DIFF_KEY.fullmatch(cursor.key)
    if match is None:
        raise Invalid(MALFORMED)
    return int(match[1]), DiffPosition(int(match[2]), match[3])


def _change(difference: Difference) -> DiffChange:
    return DiffChange(
        change=difference.change,
        kind=difference.kind,
        id=difference.id,
        name=difference.name,
        commit=difference.commit,
        before=difference.before,
        after=difference.after,
    )
