"""Fingerprints are others when the data were others, and only then."""

from hypothesis import given
from hypothesis import strategies as st

from arco.core import json
from arco.core.hashing import sha256_hex
from arco.flow.partition import Partitions, Static
from arco.flow.plan.input_fingerprint import (
    NOTHING_READ,
    fingerprint_function,
    input_fingerprint,
    material_digest,
    outside_material,
)
from tests.flow.plan.model import NOW, Lake, PlanningSetup, reasons

TEXTS = st.text(max_size=5)
DIGESTS = st.sampled_from([NOTHING_READ, "a" * 64, "b" * 64])


def test_a_digest_is_the_hash_of_lines_sorted_by_key() -> None:
    assert material_digest([("ds=2", "m2"), ("ds=1", None)]) == sha256_hex(b"ds=1\0-\nds=2\0m2\n")
    assert material_digest([("", "m")]) == sha256_hex(b"\0m\n")


def test_a_fingerprint_is_the_hash_of_code_and_sorted_inputs() -> None:
    message = json.encode(["code", [["t1", "x"], ["t2", "y"]]])
    assert input_fingerprint("code", [("t2", "y"), ("t1", "x")]) == sha256_hex(message)
    assert input_fingerprint("code", [("t1", "y"), ("t2", "x")]) != sha256_hex(message)
    assert input_fingerprint("other", [("t1", "x"), ("t2", "y")]) != sha256_hex(message)


def test_an_input_of_which_nothing_is_read_says_nothing() -> None:
    before = input_fingerprint("code", [("t1", "x"), ("own", material_digest([]))])
    assert before == input_fingerprint("code", [("t1", "x"), ("its-id", NOTHING_READ)])
    assert before == input_fingerprint("code", [("t1", "x")])


@given(TEXTS, st.lists(st.tuples(TEXTS, DIGESTS), max_size=4))
def test_many_at_once_are_those_one_by_one(code: str, inputs: list[tuple[str, str]]) -> None:
    fingerprint = fingerprint_function(code, [table for table, _ in inputs])
    assert fingerprint([digest for _, digest in inputs]) == input_fingerprint(code, inputs)


def test_partitions_of_others_are_reported_apart_by_their_columns_or_by_the_version() -> None:
    by_day: dict[str, str | None] = {"ds=2026-01-01": "m1"}
    assert outside_material("ds=2026-01-01", "v", by_day) == "m1"
    assert outside_material("ds=2026-01-02", "v", by_day) is None
    assert outside_material("hour=2026-01-02T00", "v", by_day) == "v"
    assert outside_material("ds=2026-01-02", "v", {"": "m"}) == "v"
    assert outside_material("ds=2026-01-02", "v", {}) == "v"


def test_keys_whose_order_as_texts_is_another_have_the_same_digest(setup: PlanningSetup) -> None:
    values = ["a/b", "a-b", "a%b", "a b"]
    odd = Partitions([Static("path", values), Static("q", ["1", "2"])])
    listed = list(odd.keys(NOW))
    assert listed != sorted(listed)  # otherwise nothing is tested
    setup.lake = Lake()
    setup.write(
        {
            "pipelines/shop.py": f"""
            ODD = [Static("path", {values!r}), Static("q", ["1", "2"])]
            source("raw.odd", partitions=ODD)
            @asset("silver.odd")
            def odd(raw=table("raw.odd")): return raw
            """
        }
    )
    setup.lake.fill("raw.odd", *listed)
    assert setup.run() == ["silver.odd"]
    assert setup.plan().tasks == ()
    setup.lake.fill("raw.odd", listed[3])
    assert reasons(setup.plan()) == {"silver.odd": "UPSTREAM_CHANGED"}
