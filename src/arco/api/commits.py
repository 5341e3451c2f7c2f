"""Handlers of what was published: commits, manifests, and the difference between two of them."""

import re

from arco.api.desk import Desk, many
from arco.api.etag import snapshot_tag
from arco.api.limits import MOST_COLUMNS
from arco.api.paging import MALFORMED, Token, cut, unpack, unpack_number
from arco.api.query_params import AtQuery, DiffQuery, PageQuery, Query
from arco.api.route import Call, Reply
from arco.api.wire import Change, CommitEntry, CommitPage, DiffPage, ManifestEntry
from arco.catalog.commits import Numbered, get_commit, list_commits
from arco.catalog.diff import Difference, Spot, diff
from arco.catalog.snapshot import Snapshot
from arco.core import json
from arco.core.errors import Invalid, NotFound

_SPOT = re.compile(r"([0-9]{1,18}),([0-9]{1,18}),([0-9a-f-]{36})")


class Commits:
    """The history of the whole catalog."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def page(self, call: Call[PageQuery, None]) -> Reply:
        """List commits, newest first."""
        query = call.query
        snapshot, token = await self._desk.reads.pinned(query.page_token, query.as_of, call.head)
        before = snapshot.number + 1 if token is None else unpack_number(token)
        found = await list_commits(
            self._desk.services.reader, before=before, limit=query.page_size + 1
        )
        entries = [_entry(each) for each in found]
        items, last = cut(entries, query.page_size, lambda each: str(each.number))
        page = CommitPage(
            items=tuple(items),
            next_page_token=None if last is None else Token(snapshot.number, last).pack(),
        )
        return many(page, snapshot)

    async def get(self, call: Call[Query, None]) -> Reply:
        """One commit."""
        text = call.names["number"]
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise Invalid("a commit has a number from 0 on")
        entry = _entry(await get_commit(self._desk.services.reader, int(text)))
        return Reply(200, json.encode(entry), headers={"ETag": f'"{entry.sha256}"'})

    async def manifest(self, call: Call[AtQuery, None]) -> Reply:
        """What is published in a domain."""
        domain = call.names["domain"]
        readers = {"catalog": self._desk.services.reader, **self._desk.services.domains}
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
        query, reads, reader = call.query, self._desk.reads, self._desk.services.reader
        after = None
        if query.page_token is None:
            old = await reads.at(query.from_)
            new = await reads.at(query.to, call.head)
        else:
            token = unpack(query.page_token)
            start, after = _unpack_spot(token)
            old = await reader.at_number(start)
            new = await reader.at_number(token.number)
        found = await diff(
            reader.store, old, new, limit=query.page_size, most_columns=MOST_COLUMNS, after=after
        )
        page = DiffPage(
            from_=old.number,
            to=new.number,
            items=tuple(_change(each) for each in found.items),
            next_page_token=None if found.rest is None else _pack_spot(old, new, found.rest),
        )
        return many(page, new)


def _entry(found: Numbered) -> CommitEntry:
    return CommitEntry(
        number=found.number,
        sha256=found.sha256,
        published_at=found.published_at,
        commit=found.commit,
    )


def _pack_spot(old: Snapshot, new: Snapshot, spot: Spot) -> str:
    """The token of a difference: both its ends as numbers, however they were asked for, and the place."""
    return Token(new.number, f"{old.number},{spot.commit},{spot.id}").pack()


def _unpack_spot(token: Token) -> tuple[int, Spot]:
    match = _SPOT.fullmatch(token.key)
    if match is None:
        raise Invalid(MALFORMED)
    return int(match[1]), Spot(int(match[2]), match[3])


def _change(difference: Difference) -> Change:
    return Change(
        change=difference.change,
        kind=difference.kind,
        id=difference.id,
        name=difference.name,
        commit=difference.commit,
        before=difference.before,
        after=difference.after,
    )
