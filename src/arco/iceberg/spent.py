"""Metadata files that may go: those that were never in effect, and those that their table has given up.

A file's name begins with the number that it was meant for. One that no pointer names may belong to an
attempt that is still under way, so it goes only once its number is another's (P27) and it is old. Outside
of a table's own place several tables may keep their files in one folder, so there each is looked into.
"""

import re
from collections.abc import AsyncIterator

from arco.core import json
from arco.core.errors import Invalid, NotFound
from arco.iceberg.attempt import logged_files, properties_of
from arco.iceberg.desk import Desk
from arco.iceberg.engine.metadata import unpacked
from arco.iceberg.pointer import pointer_of
from arco.iceberg.standing import Standing
from arco.iceberg.transaction import Transactions
from arco.storage.backend import Meta

_NAME = re.compile(r"/(\d{5,19})-[0-9a-f-]{36}(?:\.gz)?\.metadata\.json\Z")
_DELETE = "write.metadata.delete-after-commit.enabled"


async def spent_files(
    desk: Desk, transactions: Transactions, table_id: str, standing: Standing, *, before_ms: int
) -> AsyncIterator[Meta]:
    """The metadata files of a live table that nobody will ask for again, made before a moment."""
    if standing.location is None or standing.undecided is not None:
        return
    if desk.locations.owner(standing.location) not in (None, table_id):
        return  # numbers in names count for whose folder it is, and that table may come back
    metadata = (await desk.load(standing.location)).metadata
    kept = {standing.location, *logged_files(metadata)}
    gives_up = properties_of(metadata).get(_DELETE) == "true"
    folder, home = standing.location.rpartition("/")[0], str(metadata["location"]).rstrip("/")
    async for meta in desk.files.list_below(folder):
        number = _number(meta.key)
        if number is None or meta.key in kept or meta.modified_ms > before_ms:
            continue
        if await _is_spent(
            desk, transactions, table_id, number, meta.key, gives_up=gives_up
        ) and await _is_of(desk, home, meta.key):
            yield meta


async def _is_spent(
    desk: Desk,
    transactions: Transactions,
    table_id: str,
    number: int,
    location: str,
    *,
    gives_up: bool,
) -> bool:
    entry = await desk.pointers.chain(table_id).find(number)
    if entry is None:
        return False  # not there yet, or collected: then its file may have been in effect
    pointer = pointer_of(entry)
    if pointer.metadata_location != location:
        return True
    if pointer.transaction is not None:
        return await transactions.outcome(pointer.transaction) is False
    return gives_up


async def _is_of(desk: Desk, home: str, location: str) -> bool:
    """Whether a metadata file is of the table that lies at `home`; no two tables lie at one place."""
    if location.startswith(f"{home}/"):
        return True
    try:
        found = json.decode(unpacked(await desk.files.read(location)), dict)
    except (Invalid, NotFound):
        return False
    return str(found.get("location")).rstrip("/") == home


def _number(location: str) -> int | None:
    found = _NAME.search(location)
    return None if found is None else int(found[1])
