"""The write path of the catalog keeps its promises under chaos (figures 1, 4, 7, 9, 11 and 30)."""

from datetime import UTC, datetime, timedelta

import pytest

from arco.catalog import ddl
from arco.catalog.model import TableFormat

from .catalog_model import Model
from .catalog_scenario import CatalogScenario
from .model_rows import Refused
from .report import Report
from .scenario import run_seed

HAPPENED = {
    "done": 80,
    "refused": 80,
    "unknown": 10,
    "unavailable": 50,
    "ddl commits": 40,
    "merge commits": 20,
    "mark commits": 8,
    "shared commits": 2,
    "forgotten": 2,
    "manifests collected": 10,
    "files collected": 50,
    "keys collected": 20,
    "segments collected": 20,
    "snapshots read": 60,
    "calls lost": 5,
    "calls doubled": 4,
    "crashes": 10,
    "suspends": 30,
    "fault: late": 50,
}

_AT = datetime(2026, 1, 1, tzinfo=UTC)
_SCHEMA = ddl.SchemaName("default", ("s",))


@pytest.mark.sim
@pytest.mark.parametrize("part", range(4))
def test_ten_seeds_pass_and_a_lot_happens_in_them(part: int) -> None:
    report = Report()
    for seed in range(10 * part, 10 * part + 10):
        result = run_seed(CatalogScenario, seed)
        assert result.violations == (), f"seed {seed}"
        report.add(result.scenario, result.tally)
    for counter, least in HAPPENED.items():
        assert report.total(counter) >= least, counter


def test_two_changes_of_one_object_in_one_group_are_each_answered_as_they_were() -> None:
    """Both had landed in one commit, and the first was recalled as the second had left the object."""
    assert run_seed(CatalogScenario, 10).violations == ()


def _model() -> Model:
    model = Model(timedelta(hours=1))
    requests: list[ddl.Ddl] = [
        ddl.CreateCatalog(name="default"),
        ddl.CreateSchema(catalog="default", name="s"),
        ddl.CreateTable(schema=_SCHEMA, name="t", format=TableFormat.CSV),
    ]
    for number, request in enumerate(requests):
        new_id = f"00000000-0000-7000-8000-00000000000{number}"
        model.carry_out(request, actor="user:a", at=_AT, new_id=new_id, number=number)
    return model


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (ddl.CreateCatalog(name="default"), "already_exists"),
        (ddl.CreateSchema(catalog="nowhere", name="s"), "not_found"),
        (ddl.DropSchema(target=_SCHEMA), "not_empty"),
        (ddl.DropSchema(target=_SCHEMA, force=True), None),
        (
            ddl.DropTable(target=ddl.TableName("default", ("s",), "t"), expected=1),
            "precondition_failed",
        ),
        (ddl.DropTable(target=ddl.TableName("default", ("s",), "t"), expected=2), None),
        (ddl.CreateTable(schema=_SCHEMA, name="a/b", format=TableFormat.CSV), "invalid"),
        (ddl.Undrop(id="00000000-0000-7000-8000-000000000002"), "already_exists"),
    ],
)
def test_the_model_refuses_what_cannot_be(request_: ddl.Ddl, code: str | None) -> None:
    assert _model().verdict(request_, actor="user:a", at=_AT) == code


def test_the_model_forgets_everything_inside_a_forgotten_object() -> None:
    model = _model()
    model.carry_out(
        ddl.DropCatalog(target=ddl.CatalogName("default"), force=True),
        actor="user:a",
        at=_AT,
        new_id="",
        number=3,
    )
    assert model.live() == []
    model.forget({"00000000-0000-7000-8000-000000000000"})
    assert model.state() == {}


def test_the_model_refuses_to_undrop_what_was_dropped_too_long_ago() -> None:
    model = _model()
    target = ddl.TableName("default", ("s",), "t")
    drop = ddl.DropTable(target=target)
    model.carry_out(drop, actor="user:a", at=_AT, new_id="", number=3)
    undrop = ddl.Undrop(id="00000000-0000-7000-8000-000000000002")
    later = _AT + timedelta(hours=2)
    assert model.verdict(undrop, actor="user:a", at=_AT) is None
    assert model.verdict(undrop, actor="user:a", at=later) == "not_found"
    with pytest.raises(Refused):
        model.carry_out(undrop, actor="user:a", at=later, new_id="", number=4)
