import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core.errors import Invalid
from arco.core.scope import Scope

ASCII = set("abcdefghijklmnopqrstuvwxyz0123456789_-")


def test_a_scope_is_spelled_with_labels_and_a_closing_slash() -> None:
    assert Scope().prefix == "tenant=default/workspace=default/"
    assert Scope("acme", "eu-1").prefix == "tenant=acme/workspace=eu-1/"


@pytest.mark.parametrize("name", ["a", "0", "a-b", "a_b", "x" * 63])
def test_good_names_are_taken(name: str) -> None:
    assert name in Scope(name, name).prefix


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "a/b", "a\\b", "a.b", "A", "é", "e\u0301", "ａ", "a\0", "a\n", "a "),
        *("-a", "a-", "_a", "a_", "x" * 64, "%2e", "a=b", "*", "tenant=a", "\ud800", "ſ", "K"),
    ],
)
def test_a_name_that_a_file_system_may_fold_or_follow_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="tenant"):
        Scope(tenant=name)
    with pytest.raises(Invalid, match="workspace"):
        Scope(workspace=name)


@given(st.text(), st.text())
def test_no_scope_is_a_prefix_of_another(one: str, two: str) -> None:
    try:
        first, second = Scope(one).prefix, Scope(two).prefix
    except Invalid:
        return
    assert set(one) <= ASCII
    assert first == second or not first.startswith(second)


@given(
    st.from_regex(r"[a-z0-9]{1,3}", fullmatch=True), st.from_regex(r"[a-z0-9]{1,3}", fullmatch=True)
)
def test_near_names_have_prefixes_that_never_contain_each_other(one: str, two: str) -> None:
    for other in (two, one + two, two + one):
        if other != one:
            assert not Scope(one).prefix.startswith(Scope(other).prefix)
            assert not Scope("t", one).prefix.startswith(Scope("t", other).prefix)
