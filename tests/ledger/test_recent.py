from arco.core.runtime import Runtime
from arco.ledger.recent import Recent
from tests.ledger.events import Note, note


def test_an_event_is_known_by_its_type_its_key_and_its_payload(runtime: Runtime) -> None:
    import msgspec

    recent = Recent()
    event = note(runtime, "a")
    recent.add([event])
    assert recent.has(note(runtime, "a"))
    assert not recent.has(note(runtime, "b"))
    assert not recent.has(msgspec.structs.replace(event, event_type="other"))
    other = msgspec.Raw(msgspec.json.encode(Note("changed")))
    assert not recent.has(msgspec.structs.replace(event, payload=other))


def test_only_the_newest_are_remembered(runtime: Runtime) -> None:
    recent = Recent(100)
    for number in range(1_000):
        recent.add([note(runtime, str(number))])
        assert len(recent) <= 102
    assert recent.has(note(runtime, "999"))
    assert recent.has(note(runtime, "950"))
    assert not recent.has(note(runtime, "800"))


def test_what_was_stored_again_stays_as_long_as_it_is_young(runtime: Runtime) -> None:
    recent = Recent(10)
    for number in range(40):
        recent.add([note(runtime, "often"), note(runtime, str(number))])
    assert recent.has(note(runtime, "often"))
