import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.access.principal import LOCAL_USER, Principal, PrincipalRole
from arco.core import json
from arco.core.errors import Invalid
from arco.core.scope import Scope

SCOPE = Scope("acme", "eu-1")


@pytest.mark.parametrize(
    "name",
    [LOCAL_USER, "user:a", "client:etl", "user:a:b", "user:a b", "user:Zoë", "user:" + "x" * 255],
)
def test_users_and_clients_have_names(name: str) -> None:
    assert Principal(name, SCOPE).name == name


@pytest.mark.parametrize(
    "name",
    [
        *("", ":", "ana", "user", "user:", ":ana", "group:x", "User:ana", " user:ana", "users:ana"),
        *("user:\n", "user:a\0", "user:a\x7f", "user:a\x85", "user:\ud800", "user:\u202ea"),
        *("user:a\u200b", "user:a\ufeff", "user:a\u2028", "user:\U000e0041", "user:" + "x" * 256),
    ],
)
def test_what_is_no_name_of_a_user_or_client_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="principal"):
        Principal(name, SCOPE)


@pytest.mark.parametrize("group", ["", "\n", "a\0", "x" * 256, "\ud800"])
def test_a_group_that_cannot_be_printed_is_refused(group: str) -> None:
    with pytest.raises(Invalid, match="group"):
        Principal(LOCAL_USER, SCOPE, ("analysts", group))


def test_a_user_is_no_service() -> None:
    assert Principal("client:c", SCOPE, role=PrincipalRole.SERVICE).role is PrincipalRole.SERVICE
    with pytest.raises(Invalid, match="service"):
        Principal("user:c", SCOPE, role=PrincipalRole.SERVICE)


def test_a_principal_never_changes() -> None:
    principal = Principal(LOCAL_USER, SCOPE)
    with pytest.raises(AttributeError):
        principal.name = "user:root"  # type: ignore[misc]


def test_a_principal_that_is_read_is_checked_like_one_that_is_made() -> None:
    principal = Principal("user:ana", SCOPE, ("a",))
    assert json.decode(json.encode(principal), Principal) == principal
    hostile = json.encode(msgspec.to_builtins(principal) | {"name": "group:a"})
    with pytest.raises(Invalid):
        json.decode(hostile, Principal)


@given(st.text())
def test_no_name_breaks_a_line_of_a_log(text: str) -> None:
    try:
        name = Principal(f"user:{text}", SCOPE).name
    except Invalid:
        return
    assert name.splitlines() == [name]
    assert name.isprintable()
