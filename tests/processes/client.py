"""A client that keeps to the rules: it repeats under a key, looks after an unknown outcome, and notes."""

import asyncio
import random
import time

import httpx2

from arco.core import json
from tests.processes.journal import Answer, ChangeRequest, Document, Journal, Note, Outcome

_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout)
# Past it the run is stuck, and that is a finding. Each holder of a key in turn may be killed, and the wait
# before the next one grows from 2 to 32 s (P13).
_PATIENCE_S = 200.0
_TIMEOUT = httpx2.Timeout(40.0, connect=5.0)


class Client:
    """One caller of a deployment, who takes any api for each attempt."""

    def __init__(self, apis: list[str], journal: Journal, rng: random.Random) -> None:
        self._urls = apis
        self._journal = journal
        self._rng = rng
        self._http = httpx2.AsyncClient(timeout=_TIMEOUT, trust_env=False)

    async def close(self) -> None:
        await self._http.aclose()

    async def carry_out(self, change: ChangeRequest) -> Note:
        """Send a change once, or with a key until there is an answer; and note what came of it."""
        note = await (self._until_answered(change) if change.key else self._once(change))
        self._journal.notes.append(note)
        return note

    async def replay(self, note: Note) -> None:
        """Send a change with a key again: the answer must be the same, and nothing may happen."""
        repeated = await self._until_answered(note.change)
        self._journal.replays += 1
        if repeated.answer != note.answer:
            self.blame(f"key of {note.change.mark}: first {note.answer}, then {repeated.answer}")

    async def read(self, object_id: str) -> Document:
        """An object by its id, dropped or not; whoever was told that it is there must find it."""
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            try:
                answer = await self._http.get(
                    f"{self._url()}/api/v1/objects/{object_id}", params={"dropped": "true"}
                )
            except httpx2.HTTPError:
                await asyncio.sleep(0.05)
                continue
            if answer.status_code == 200:
                return json.decode(answer.content, Document)
            if answer.status_code < 500:
                raise AssertionError(f"{object_id} is lost: {answer.status_code}")
            await asyncio.sleep(0.05)
        raise AssertionError(f"{object_id} could not be read for {_PATIENCE_S} s")

    def blame(self, what: str) -> None:
        self._journal.wrong.append(what)

    async def _once(self, change: ChangeRequest) -> Note:
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            try:
                return _note(change, await self._send(change))
            except _NOT_SENT:
                await asyncio.sleep(self._rng.uniform(0.02, 0.1))
            except httpx2.HTTPError:
                return Note(change, Outcome.UNKNOWN)
        raise AssertionError(f"nobody listens for {_PATIENCE_S} s")

    async def _until_answered(self, change: ChangeRequest) -> Note:
        until = time.monotonic() + _PATIENCE_S
        last: object = None
        while time.monotonic() < until:
            try:
                note = _note(change, await self._send(change))
            except httpx2.HTTPError as problem:
                last = problem
            else:
                if note.outcome in {Outcome.DONE, Outcome.REFUSED}:
                    return note
                last = note.answer
            await asyncio.sleep(self._rng.uniform(0.02, 0.3))
        raise AssertionError(
            f"{change.mark} with a key has no answer after {_PATIENCE_S} s: {last}"
        )

    async def _send(self, change: ChangeRequest) -> Answer:
        sent_s = time.monotonic()
        headers = change.headers | ({"Idempotency-Key": change.key} if change.key else {})
        got = await self._http.request(
            change.method, f"{self._url()}{change.path}", json=change.body, headers=headers
        )
        answer = Answer(got.status_code, got.content, got.headers.get("etag"))
        if answer.status < 300:
            self._journal.acks.append((sent_s, time.monotonic()))
        elif answer.status >= 500 and answer.status not in {503, 504}:
            self.blame(f"{change.operation} of {change.mark}: {answer}")
        elif answer.status == 503 and "retry-after" not in got.headers:
            self.blame(f"{change.operation} of {change.mark}: 503 without Retry-After")
        return answer

    def _url(self) -> str:
        return self._rng.choice(self._urls)


def _note(change: ChangeRequest, answer: Answer) -> Note:
    if answer.status >= 300:
        outcome = {503: Outcome.TURNED_AWAY}.get(answer.status, Outcome.UNKNOWN)
        return Note(change, outcome if answer.status >= 500 else Outcome.REFUSED, answer)
    document = json.decode(answer.body, Document) if answer.body else None
    made = None if document is None else document["id"]
    return Note(
        change,
        Outcome.DONE,
        answer,
        object_id=change.object_id or made,
        commit=None if answer.etag is None else int(answer.etag.strip('"').partition("-")[0]),
        document=document,
    )
