"""The documentation of events says what the code does."""

import json
import re

from arco.events.registry import KINDS
from arco.ledger.envelope import Envelope, Submission
from tests.events.reference import PAGE, page_with, reference
from tests.events.told import NOON, read, row_of


def test_the_page_has_the_reference_that_the_code_makes() -> None:
    text = PAGE.read_text()
    assert text == page_with(text, reference()), "run: python -m tests.events.reference"


def test_every_kind_is_on_the_page() -> None:
    named = re.findall(r"^### (\w+)$", PAGE.read_text(), re.MULTILINE)
    assert named == [kind.name for kind in KINDS]


def test_the_page_tells_of_every_field_of_the_envelope() -> None:
    told = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text().partition("## ")[2], re.MULTILINE))
    assert {*Submission.__struct_fields__, *Envelope.__struct_fields__} <= told


def test_the_first_event_of_the_page_is_one_that_is_sent() -> None:
    [first] = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)[:1]
    sent = json.loads(first)
    stamped = {"received_at": NOON.isoformat(), "event_id": "01M7FVEX5Z85VB9FZB9BSTEF1J"}
    line = json.dumps({"idempotency_key": "k", **sent, **stamped}).encode()
    assert read([line]).quarantined == 0
    assert row_of([line], "partitions")["last_execution_id"] == sent["source"]["execution_id"]
