"""The matrix is whole, and the one decision goes by it."""

from itertools import product

import pytest

from arco.access.authorization import (
    ACCESS_MATRIX,
    PUBLIC_OPERATIONS,
    AccessTarget,
    Operation,
    TargetKind,
    authorize,
)
from arco.access.principal import LOCAL_USER, Principal, PrincipalRole
from arco.core.errors import Denied, Unauthenticated
from arco.core.ids import ObjectId
from arco.core.scope import Scope
from tests.figures import Figure

HERE = Scope("acme", "eu-1")
ELSEWHERE = (Scope("acme", "eu-2"), Scope("ab", "eu-1"), Scope(), Scope("eu-1", "acme"))
INTERNAL = {
    *(Operation.SYNC_COMPACT, Operation.PUBLISH_ORPHAN_MARK, Operation.MERGE),
    Operation.NOTIFY,
}

USER = Principal("user:ana", HERE, ("analysts",))
CLIENT = Principal("client:etl", HERE)
SERVICE = Principal("client:service", HERE, role=PrincipalRole.SERVICE)


def subject(kind: TargetKind, scope: Scope = HERE) -> AccessTarget:
    return AccessTarget(scope=scope, kind=kind, id=ObjectId("0190"))


def may(principal: Principal, operation: Operation, target: AccessTarget) -> bool:
    try:
        authorize(principal, operation, target)
    except Denied:
        return False
    return True


def test_every_operation_has_an_entry() -> None:
    assert set(ACCESS_MATRIX) == set(Operation)


def test_what_needs_no_principal_is_short_and_reveals_nothing_of_the_catalog() -> None:
    assert {*PUBLIC_OPERATIONS} == {"health", "metrics", "openapi", "docs"}


def test_only_what_needs_no_principal_acts_on_nothing() -> None:
    assert {
        operation for operation, rule in ACCESS_MATRIX.items() if not rule.targets
    } == PUBLIC_OPERATIONS


def test_every_kind_of_thing_can_be_acted_on() -> None:
    assert {target for rule in ACCESS_MATRIX.values() for target in rule.targets} == set(TargetKind)


@pytest.mark.parametrize("operation", Operation)
def test_an_operation_that_is_called_a_read_is_one(operation: Operation) -> None:
    others = {"diff", "query", "report_metrics", *PUBLIC_OPERATIONS}
    name = operation.removeprefix("iceberg_")
    assert ACCESS_MATRIX[operation].reads == (
        name.startswith(("get_", "list_", "load_", "watch_"))
        or name.endswith("_exists")
        or name in others
    )


@pytest.mark.parametrize("operation", Operation)
def test_an_operation_acts_on_the_thing_it_is_named_after_or_on_its_container(
    operation: Operation,
) -> None:
    verb, _, noun = operation.removeprefix("iceberg_").partition("_")
    if verb in ("get", "update", "drop", "undrop") and noun in set(TargetKind):
        assert ACCESS_MATRIX[operation].targets == {TargetKind(noun)}
    if verb in ("create", "list") and noun.removesuffix("s") in set(TargetKind):
        assert ACCESS_MATRIX[operation].targets


def test_the_decision_over_every_operation_principal_scope_and_kind(figure: Figure) -> None:
    cells, wrong = 0, []
    principals = (USER, CLIENT, SERVICE)
    for operation, principal, scope, kind in product(
        Operation, principals, (HERE, *ELSEWHERE), TargetKind
    ):
        right = operation in PUBLIC_OPERATIONS or (
            scope == HERE
            and (principal is SERVICE) == (operation in INTERNAL)
            and kind in ACCESS_MATRIX[operation].targets
        )
        cells += 1
        if may(principal, operation, subject(kind, scope)) != right:
            wrong.append((operation, principal.name, scope, kind))
    assert wrong == []
    figure(
        f"access matrix: {cells} cells over {len(Operation)} operations, {len(wrong)} mismatches"
    )


def test_the_local_user_may_do_all_that_callers_may() -> None:
    local = Principal(LOCAL_USER, HERE)
    allowed = {
        operation
        for operation, rule in ACCESS_MATRIX.items()
        if all(may(local, operation, subject(kind)) for kind in rule.targets)
    }
    assert allowed == set(Operation) - INTERNAL


def test_a_client_that_only_bears_the_services_name_is_no_service() -> None:
    for operation in INTERNAL:
        assert not may(Principal(SERVICE.name, HERE), operation, subject(TargetKind.WORKSPACE))
        assert may(SERVICE, operation, AccessTarget(scope=HERE))


def test_all_refusals_read_alike() -> None:
    sentences = set()
    for principal, operation, target in (
        (USER, Operation.MERGE, AccessTarget(scope=HERE)),
        (SERVICE, Operation.QUERY, AccessTarget(scope=HERE)),
        (USER, Operation.GET_TABLE, subject(TargetKind.TABLE, ELSEWHERE[0])),
        (USER, Operation.GET_TABLE, subject(TargetKind.SCHEMA)),
    ):
        with pytest.raises(Denied) as refused:
            authorize(principal, operation, target)
        assert not isinstance(refused.value, Unauthenticated)
        sentences.add(str(refused.value))
    assert len(sentences) == 1
