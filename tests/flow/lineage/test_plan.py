"""The parser, on plans that Spark wrote once and on plans by hand; no Spark is needed."""

import json
import re

import pytest

from arco.flow.lineage import (
    EVERY_COLUMN,
    Dataset,
    Leaf,
    LineageObservation,
    PlanFacts,
    PlanLineage,
    read_plan,
)
from arco.flow.lineage.plan_tree import PARTITION_FILTER_MARKER
from tests.flow.lineage.cases import CASES
from tests.flow.lineage.expected_lineage import Case, lineage_of
from tests.flow.lineage.plan_builder import (
    Flat,
    alias,
    attribute,
    literal,
    node,
    project,
    relation,
    text,
    where,
)
from tests.flow.lineage.record import load

RECORDED = [case for case in CASES if "fixture" in case.tags]

ID, DS = attribute("id", 1), attribute("ds", 2)
SALES = Leaf((Dataset("db.sales"),), frozenset({"ds"}))
FACTS = PlanFacts({1: SALES}, target_partition_columns=frozenset({"day"}))


def observed(plan_lineage: PlanLineage) -> LineageObservation:
    return LineageObservation(
        (), plan_lineage.edges, plan_lineage.soundness, plan_lineage.fingerprint, plan_lineage.note
    )


def equal(left: Flat, right: Flat) -> Flat:
    return node("EqualTo", left, right, left=0, right=1)


def fingerprint(plan: Flat, facts: PlanFacts = FACTS) -> str:
    plan_lineage = read_plan(text(plan), facts)
    assert plan_lineage.fingerprint is not None, plan_lineage.note
    return plan_lineage.fingerprint


def influences(plan: Flat) -> list[tuple[str, str]]:
    edges = read_plan(text(plan), FACTS).edges
    return [
        (each.source_column, each.transformation)
        for each in edges
        if each.target_column == EVERY_COLUMN
    ]


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case.name)
def test_a_recorded_plan_gives_the_truth(case: Case) -> None:
    plan_lineage = read_plan(*load(case.name))
    assert lineage_of(observed(plan_lineage)) == case.expected()
    assert not plan_lineage.note


def test_the_very_first_column_of_a_spark_has_the_number_0_and_an_origin() -> None:
    first = attribute("id", 0)
    plan_lineage = read_plan(
        text(project(relation(first, DS), alias(first, "key", 3))), PlanFacts({0: SALES})
    )
    assert lineage_of(observed(plan_lineage)) == ({"key": {"sales.id": "DIRECT"}}, set(), "exact")


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case.name)
def test_other_numbers_of_columns_give_the_same_fingerprint(case: Case) -> None:
    plan, facts = load(case.name)
    moved = re.sub(
        r'"id": (\d+), "jvmId"', lambda match: f'"id": {int(match[1]) + 777}, "jvmId"', plan
    )
    expansions = {
        key + 777: tuple(
            re.sub(r'"id":(\d+),"jvmId"', lambda match: f'"id":{int(match[1]) + 777},"jvmId"', each)
            for each in projections
        )
        for key, projections in facts.expansions.items()
    }
    leaves = {key + 777: leaf for key, leaf in facts.leaves.items()}
    renumbered = read_plan(moved, PlanFacts(leaves, expansions, facts.target))
    assert moved != plan
    assert renumbered == read_plan(plan, facts)


def test_there_are_six_recorded_plans() -> None:
    assert len(RECORDED) == 6


def test_an_unknown_operator_is_noted_and_not_guessed_at() -> None:
    plan = node("Teleport", relation(ID, DS), child=0, output=[attribute("x", 9)])
    plan_lineage = read_plan(text(plan), FACTS)
    assert plan_lineage.soundness == "unsupported"
    assert "Teleport" in plan_lineage.note
    assert {(edge.source_column, edge.transformation) for edge in plan_lineage.edges} == {
        ("id", "UNKNOWN"),
        ("ds", "UNKNOWN"),
    }


def test_a_column_without_a_source_is_noted() -> None:
    plan_lineage = read_plan(text(project(relation(ID), attribute("ghost", 99))), FACTS)
    assert (plan_lineage.edges, plan_lineage.soundness) == ((), "unsupported")
    assert "ghost" in plan_lineage.note


def test_an_unknown_relation_is_noted() -> None:
    plan_lineage = read_plan(text(relation(ID)), PlanFacts())
    assert (plan_lineage.edges, plan_lineage.soundness) == ((), "unsupported")


@pytest.mark.parametrize("broken", ["", "{}", "[]", "[1]", '[{"class": "a.Project"}]', "[[["])
def test_what_is_no_plan_gives_no_columns_and_raises_nothing(broken: str) -> None:
    plan_lineage = read_plan(broken, FACTS)
    assert (plan_lineage.edges, plan_lineage.soundness, plan_lineage.fingerprint) == (
        (),
        "table_only",
        None,
    )
    assert plan_lineage.note


def test_a_plan_cut_off_in_the_middle_gives_no_columns() -> None:
    plan = project(relation(ID), ID)
    assert read_plan(text(plan[:1]), FACTS).soundness == "table_only"


def test_a_plan_that_exceeds_its_time_has_no_columns() -> None:
    asked = iter([False, False, True])
    plan_lineage = read_plan(
        text(project(relation(ID), ID)), FACTS, is_out_of_time=lambda: next(asked)
    )
    assert (plan_lineage.edges, plan_lineage.soundness) == ((), "table_only")
    assert "time" in plan_lineage.note


def test_more_edges_than_an_event_holds_are_table_only() -> None:
    columns = [attribute(f"c{at}", at + 1) for at in range(101)]
    outputs = [attribute(f"o{at}", at + 1000) for at in range(101)]
    plan = node("MapInPandas", relation(*columns), child=0, output=outputs)
    plan_lineage = read_plan(text(plan), FACTS)
    assert (plan_lineage.edges, plan_lineage.soundness) == ((), "table_only")
    assert "10000" in plan_lineage.note


def test_a_plan_deeper_than_the_stack_is_read() -> None:
    plan = relation(ID)
    for at in range(3_000):
        plan = project(plan, alias(attribute("id", at or 1), "id", at + 1))
    plan_lineage = read_plan(text(plan), FACTS)
    assert [edge.transformation for edge in plan_lineage.edges] == ["DIRECT"]


def test_another_partition_has_the_same_fingerprint() -> None:
    def of(day: str) -> str:
        return fingerprint(project(where(relation(ID, DS), equal(DS, literal(day))), ID))

    assert of("2026-01-01") == of("2026-01-02")


def test_several_partitions_have_the_fingerprint_of_one() -> None:
    one = where(relation(ID, DS), equal(DS, literal("a")))
    both = where(relation(ID, DS), node("In", DS, literal("a"), literal("b"), value=0))
    either = where(
        relation(ID, DS), node("Or", equal(DS, literal("a")), equal(DS, literal("b")), left=0)
    )
    later = where(relation(ID, DS), node("GreaterThan", DS, literal("a"), left=0, right=1))
    assert fingerprint(one) == fingerprint(both) == fingerprint(either)
    assert fingerprint(one) != fingerprint(later)


def test_the_partition_filter_is_no_influence_and_not_in_the_fingerprint() -> None:
    mark = node("IsNotNull", literal(PARTITION_FILTER_MARKER), child=0)
    sales, is_a = relation(ID, DS), equal(DS, literal("a"))
    cut = where(sales, node("And", is_a, mark, left=0, right=1))
    filtered = where(cut, equal(DS, literal("b")))
    assert influences(project(cut, ID)) == []
    assert influences(project(filtered, ID)) == [("ds", "FILTER")]
    assert fingerprint(project(cut, ID)) == fingerprint(project(sales, ID))
    assert fingerprint(project(filtered, ID)) == fingerprint(project(where(sales, is_a), ID))


def test_a_text_like_the_mark_elsewhere_in_a_condition_is_no_cut() -> None:
    mark = node("IsNotNull", literal(PARTITION_FILTER_MARKER), child=0)
    either = node("Or", equal(DS, literal("a")), mark, left=0, right=1)
    assert influences(where(relation(ID, DS), either)) == [("ds", "FILTER")]


def test_another_filter_on_rows_has_another_fingerprint() -> None:
    one, other = (where(relation(ID, DS), equal(ID, literal(value))) for value in ("1", "2"))
    assert fingerprint(one) != fingerprint(other)


def test_a_partition_filter_among_others_is_the_only_one_left_out() -> None:
    def of(day: str, row: str) -> str:
        both = node("And", equal(DS, literal(day)), equal(ID, literal(row)), left=0, right=1)
        return fingerprint(where(relation(ID, DS), both))

    assert of("a", "1") == of("b", "1")
    assert of("a", "1") != of("a", "2")


def test_the_constant_of_the_targets_partition_is_left_out_and_others_are_not() -> None:
    def of(day: str, label: str) -> str:
        columns = alias(literal(day), "day", 7), alias(literal(label), "label", 8)
        return fingerprint(project(relation(ID), *columns))

    assert of("a", "x") == of("b", "x")
    assert of("a", "x") != of("a", "y")


def test_a_new_column_of_a_source_that_nothing_reads_changes_no_fingerprint() -> None:
    wider = project(relation(ID, DS, attribute("new", 3)), ID)
    assert fingerprint(wider) == fingerprint(project(relation(ID, DS), ID))


def test_other_tables_under_the_same_code_have_another_fingerprint() -> None:
    other = PlanFacts({1: Leaf((Dataset("db.other"),))})
    assert fingerprint(relation(ID)) != fingerprint(relation(ID), other)


def test_a_seed_that_spark_draws_is_no_part_of_the_fingerprint() -> None:
    one, other = (
        project(relation(ID), alias(node("Rand", literal(seed), child=0), "r", 5))
        for seed in (1, 2)
    )
    assert fingerprint(one) == fingerprint(other)


def test_the_text_of_an_expression_reads_as_sql() -> None:
    plan, facts = load("direct, cast, expression and literal")
    texts = {edge.target_column: edge.sql for edge in read_plan(plan, facts).edges}
    assert texts["id"] is None
    assert texts["whole"] == "CAST(amount AS integer)"
    assert texts["both"] == "(amount * CAST(id AS double))"
    assert json.dumps(texts["domain"]).startswith('"get_array_item(split(email,')
