import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.catalog.name import (
    LEVEL,
    MAX_LEVELS,
    check_column_name,
    check_comment,
    check_name,
    check_owner,
    check_properties,
    check_tags,
    join_levels,
    parse_dotted,
    print_dotted,
    split_levels,
)
from arco.core.errors import Invalid


def is_name(text: str) -> bool:
    try:
        check_name(text, "table")
    except Invalid:
        return False
    return True


# Letters that matter to some rule come up often, and all of Unicode now and then.
LETTERS = st.one_of(st.sampled_from("ab. \"'`%*é日"), st.characters())
NAMES = st.text(LETTERS, min_size=1, max_size=12).filter(is_name)
LEVELS = st.lists(NAMES, min_size=1, max_size=MAX_LEVELS).map(tuple)


@pytest.mark.parametrize(
    "name",
    [
        *("a", "orders", "Orders", "größe", "e\u0301", "注文", "بيانات", "naïve café", "🛒", "1"),
        *("a.b", ".a", "a.", "..a", "a..", "100%", "%2e", "%2F", "*", "a*", "'", '"', "`", "a'b"),
        *("a\u200cb", "👩\u200d💻", "-", "_", "a=b", "a:b", "?", "#", "~", "a;b", "x" * 255),
        *("é" * 127, "\u0915\u093f"),
    ],
)
def test_a_valid_name_is_returned_unchanged(name: str) -> None:
    assert check_name(name, "table") == name
    assert check_column_name(name) == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        (".", "dots"),
        ("..", "dots"),
        ("...", "dots"),
        (". .", "dots"),
        (".\u200d.", "dots"),
        *((f"a{control}b", "control character") for control in "\0\t\n\r\x1b\x1f\x7f\x85\x9f"),
        *((f"a{sign}b", "reorders") for sign in "\u2028\u2029\u202a\u202e\u2066\u2069\ufeff"),
        *(
            (f"a{sign}b", "hides")
            for sign in "\u00ad\u061c\u200b\u200e\u2060\u3164\uffff\U000e0041"
        ),
        *((blank, "invisible") for blank in "\u200d\u2800\u034f\ufe0f"),
        ("a\ud800", "surrogate"),
        ("\udfff", "surrogate"),
        ("x" * 256, "255 bytes"),
        ("é" * 128, "255 bytes"),
    ],
)
def test_a_name_that_hides_or_cannot_be_stored_is_refused(name: str, reason: str) -> None:
    with pytest.raises(Invalid, match=f"^schema .* {reason}"):
        check_name(name, "schema")
    with pytest.raises(Invalid, match=f"^column .* {reason}"):
        check_column_name(name)


@pytest.mark.parametrize("space", [" ", "\u00a0", "\u2003", "\u3000"])
def test_white_space_around_a_name_is_for_columns_only(space: str) -> None:
    for name in (f"{space}a", f"a{space}"):
        with pytest.raises(Invalid, match=r"^table .* white space"):
            check_name(name, "table")
        assert check_column_name(name) == name


@pytest.mark.parametrize("name", ["/", "a/b", "../a", "\\", "a\\b"])
def test_slashes_are_for_columns_only(name: str) -> None:
    with pytest.raises(Invalid, match=r"^table .* slash"):
        check_name(name, "table")
    assert check_column_name(name) == name


def test_the_message_escapes_invisible_characters_and_is_short() -> None:
    with pytest.raises(Invalid) as problem:
        check_name("\u202e" + "x" * 100, "table")
    assert "'\\u202e" in str(problem.value)
    assert "U+202E" in str(problem.value)
    assert len(str(problem.value)) < 250


@given(st.text(LETTERS))
def test_a_name_is_given_back_unchanged_or_refused(text: str) -> None:
    try:
        assert check_name(text, "table") == text
    except Invalid:
        return
    assert 1 <= len(text.encode()) <= 255
    assert not set(text) & set("/\\\x1f\n\0\u202e")
    assert text.strip() == text
    assert text.strip(".")


@pytest.mark.parametrize("text", ["", "Two\nlines\tand more\r\n", " \u202bא ", "x" * 65_536])
def test_a_comment_may_have_lines_and_nearly_anything(text: str) -> None:
    assert check_comment(text) == text


@pytest.mark.parametrize("text", ["\0", "a\x1b[31m", "\x7f", "\x9b", "\ud800", "x" * 65_537])
def test_a_comment_has_no_control_characters_and_an_end(text: str) -> None:
    with pytest.raises(Invalid, match="comment"):
        check_comment(text)
    with pytest.raises(Invalid, match="comment"):
        check_comment("é" * 32_769)


def test_properties_are_copied_and_their_values_may_be_delimiters() -> None:
    properties = {"field.delim": "\x01", "k" * 255: "v" * 65_536, "arco": "x", "Arco-x": ""}
    checked = check_properties(properties)
    assert checked == properties
    assert checked is not properties
    assert len(check_properties({str(number): "" for number in range(1_000)})) == 1_000


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"": "x"}, "empty"),
        ({"k" * 256: "x"}, "255 bytes"),
        ({"é" * 128: "x"}, "255 bytes"),
        ({"a\nb": "x"}, r"U\+000A"),
        ({"\ud800": "x"}, "surrogate"),
        ({"a": "\ud800"}, "value .* 'a' .* surrogate"),
        ({"a": "v" * 65_537}, "value .* 'a' .* 65536 bytes"),
        ({"a": "é" * 32_769}, "value .* 'a' .* 65536 bytes"),
        ({"arco.x": "x"}, "reserved"),
        ({"arco.": "x"}, "reserved"),
        ({str(number): "" for number in range(1_001)}, "1001 properties"),
    ],
)
def test_properties_that_cannot_be_kept_are_refused(
    properties: dict[str, str], reason: str
) -> None:
    with pytest.raises(Invalid, match=reason):
        check_properties(properties)


def test_tags_lose_their_repetitions_and_keep_their_order() -> None:
    assert check_tags([]) == []
    assert check_tags(["b", "a", "b", "B", "a"]) == ["b", "a", "B"]
    assert len(check_tags([str(number) for number in range(100)] * 2)) == 100


def test_tags_are_names_and_not_too_many() -> None:
    with pytest.raises(Invalid, match=r"^tag 'a/b'"):
        check_tags(["ok", "a/b"])
    with pytest.raises(Invalid, match="101 tags"):
        check_tags([str(number) for number in range(101)])


@pytest.mark.parametrize(
    "owner",
    ["user:local", "alice", "group:data eng", "client:01J", "user:a@b.c", "user:x:y", "user:a/b|c"],
)
def test_an_owner_is_a_principal_or_a_name_of_another_system(owner: str) -> None:
    assert check_owner(owner) == owner


@pytest.mark.parametrize("owner", ["", "user:\n", "user:\u202ex", "x" * 256])
def test_an_owner_without_a_name_is_refused(owner: str) -> None:
    with pytest.raises(Invalid, match=r"^owner"):
        check_owner(owner)


def test_levels_in_a_url_are_joined_by_the_unit_separator() -> None:
    assert LEVEL == "\x1f"
    assert split_levels("a\x1fb.c") == ("a", "b.c")
    assert join_levels(["a", "b.c"]) == "a\x1fb.c"


@given(LEVELS)
def test_levels_come_back_from_a_url(levels: tuple[str, ...]) -> None:
    assert split_levels(join_levels(levels)) == levels


@pytest.mark.parametrize("text", ["", LEVEL, f"a{LEVEL}", f"{LEVEL}a", f"a{LEVEL}..", "a/b"])
def test_each_level_of_a_url_is_checked(text: str) -> None:
    with pytest.raises(Invalid, match=r"^schema"):
        split_levels(text)
    with pytest.raises(Invalid, match=r"^schema"):
        join_levels(["ok", text])


def test_levels_have_a_least_and_a_most_number() -> None:
    assert len(split_levels(LEVEL.join("a" * 32))) == 32
    with pytest.raises(Invalid, match="at most 32"):
        split_levels(LEVEL.join("a" * 33))
    with pytest.raises(Invalid, match="at most 32"):
        join_levels("a" * 33)
    with pytest.raises(Invalid, match="at least one"):
        join_levels([])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ("a",)),
        ("a.b.c", ("a", "b", "c")),
        ('"a.b".c', ("a.b", "c")),
        ('a."say ""hi"""', ("a", 'say "hi"')),
        ('"""".x', ('"', "x")),
        ("größe x.'y'", ("größe x", "'y'")),
        (".".join("a" * 34), ("a",) * 34),
    ],
)
def test_people_type_levels_with_dots_and_quotes(text: str, parts: tuple[str, ...]) -> None:
    assert parse_dotted(text) == parts
    assert print_dotted(parts) == text


def test_unnecessary_quotes_are_accepted() -> None:
    assert parse_dotted('"a"."b"') == ("a", "b")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "character 1: .* missing"),
        (".", "character 1: .* missing"),
        ("a.", "character 3: .* missing"),
        ("a..b", "character 3: .* missing"),
        (".a", "character 1: .* missing"),
        ('a"b', "character 2: quotes go around"),
        ('"a"b', "character 4: quotes go around"),
        ('"a', "character 1: this quote is never closed"),
        ('a."b""', "character 3: this quote is never closed"),
        ('""', "empty"),
        ("a/b", "^part 'a/b' .* slash"),
        ("a. b", "^part ' b' .* white space"),
        (".".join("a" * 35), "at most 34 parts"),
    ],
)
def test_an_error_in_a_dotted_name_is_reported_with_its_position(text: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        parse_dotted(text)


def test_nothing_is_not_a_dotted_name() -> None:
    with pytest.raises(Invalid, match="at least one part"):
        print_dotted([])


@given(LEVELS)
def test_dotted_names_come_back_as_they_were(levels: tuple[str, ...]) -> None:
    assert parse_dotted(print_dotted(levels)) == levels


@given(st.text(st.one_of(st.sampled_from('ab."'), st.characters())))
def test_what_can_be_parsed_is_printed_in_one_spelling(text: str) -> None:
    try:
        parts = parse_dotted(text)
    except Invalid:
        return
    printed = print_dotted(parts)
    assert parse_dotted(printed) == parts
    assert printed.replace('"', "") == text.replace('"', "")
    assert len(printed) <= len(text)
