"""Events of an older or a newer Arco: an event that cannot be decoded completely is refused (P24)."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from arco.catalog.event import read_event
from arco.core import json
from arco.core.errors import Invalid
from arco.ledger.envelope import Envelope
from tests.catalog.catalog_setup import is_lost, names_in, new_table, started

Spoil = Callable[[dict[str, Any]], None]


def spoiled(event: Envelope, spoil: Spoil) -> Envelope:
    payload = json.decode(bytes(event.payload), dict[str, Any])
    spoil(payload)
    return msgspec.structs.replace(event, payload=msgspec.Raw(json.encode(payload)))


def newer_table(payload: dict[str, Any]) -> None:
    payload["rows"]["grants"] = [{"principal": "user:ann"}]


def newer_column(payload: dict[str, Any]) -> None:
    payload["rows"]["tables"][0]["sort_order"] = "name"


def newer_field(payload: dict[str, Any]) -> None:
    payload["session"] = "abc"


def missing_field(payload: dict[str, Any]) -> None:
    del payload["rows"]["tables"][0]["schema_id"]


def other_type(payload: dict[str, Any]) -> None:
    payload["rows"]["tables"][0]["schema_version"] = "one"


def unknown_format(payload: dict[str, Any]) -> None:
    payload["rows"]["tables"][0]["format"] = "HUDI"


def no_rows(payload: dict[str, Any]) -> None:
    payload["rows"]["tables"] = []


def nothing_at_all(payload: dict[str, Any]) -> None:
    payload["rows"] = {}


def too_large(payload: dict[str, Any]) -> None:
    payload["rows"]["tables"][0]["schema_version"] = 2**63


SPOILS = [newer_table, newer_column, newer_field, missing_field, other_type, unknown_format]
SPOILS += [no_rows, nothing_at_all, too_large]


@pytest.mark.parametrize("spoil", SPOILS)
async def test_one_event_that_cannot_be_folded_refuses_the_whole_call(spoil: Spoil) -> None:
    setup = await started()
    before = (await setup.head()).number
    setup.channel.always = is_lost
    answers = [setup.api.do(new_table(name)) for name in "ab"]
    for answer in answers:
        with pytest.raises(Exception, match="connection"):
            await answer
    good, bad = (call.events[0] for call in setup.channel.calls[-2:])
    call = setup.channel.calls[-1]
    both = msgspec.structs.replace(
        call,
        events=(good, spoiled(bad, spoil)),
        event_paths=("ledger/catalog/x/000000000000.jsonl#1", *call.event_paths),
    )
    with pytest.raises(Invalid, match=bad.event_id):
        await setup.compactor.sync_compact(both)
    assert (await setup.cold().head()).number == before
    assert await names_in(await setup.cold().head()) == []
    setup.channel.always = None
    await setup.close()


@pytest.mark.parametrize(
    "other", [{"event_type": "catalog_dreamt"}, {"event_version": 2}, {"event_version": 0}]
)
async def test_an_event_of_another_type_or_version_is_refused_by_its_name(
    other: dict[str, Any],
) -> None:
    setup = await started()
    await setup.table("a")
    event = setup.channel.calls[-1].events[0]
    change, rows = read_event(event)
    assert (change.operation, change.name) == ("create_table", "default.s.a")
    assert sorted(rows) == ["objects", "schema_versions", "tables"]
    with pytest.raises(Invalid, match=event.event_id):
        read_event(msgspec.structs.replace(event, **other))
    await setup.close()
