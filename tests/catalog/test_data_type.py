import string
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arco.catalog.data_type import MAX_CHARACTERS, MAX_DEPTH, normalise
from arco.catalog.name import check_column_name, check_comment
from arco.core.errors import Invalid


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        *(("tinyint", "tinyint"), ("byte", "tinyint"), ("smallint", "smallint")),
        *(("short", "smallint"), ("int", "int"), ("integer", "int"), ("bigint", "bigint")),
        *(("long", "bigint"), ("float", "float"), ("real", "float"), ("double", "double")),
        *(("decimal", "decimal(10,0)"), ("dec(5)", "decimal(5,0)")),
        *(("numeric(38,38)", "decimal(38,38)"), ("DECIMAL( 10 , 2 )", "decimal(10,2)")),
        *(("decimal(010,02)", "decimal(10,2)"), ("decimal(1,0)", "decimal(1,0)")),
        *(("string", "string"), ("binary", "binary"), ("boolean", "boolean"), ("date", "date")),
        *(("char(3)", "char(3)"), ("CHARACTER(3)", "char(3)"), ("varchar( 7)", "varchar(7)")),
        *(("varchar(2147483647)", "varchar(2147483647)"), ("varchar(0)", "varchar(0)")),
        ("string collate utf8_lcase", "string collate UTF8_LCASE"),
        ("STRING COLLATE unicode_ci", "string collate UNICODE_CI"),
        ("string collate SR_CYRL_srb_ai", "string collate sr_Cyrl_SRB_AI"),
        ("char(3) collate DE", "char(3) collate de"),
        *(("timestamp", "timestamp"), ("timestamp_ltz", "timestamp")),
        *(("timestamp with local time zone", "timestamp"), ("timestamp_ntz", "timestamp_ntz")),
        *(("TIMESTAMP WITHOUT TIME ZONE", "timestamp_ntz"), ("time", "time(6)")),
        *(("timestamp_ntz( 9 )", "timestamp_ntz(9)"), ("timestamp_ltz(7)", "timestamp_ltz(7)")),
        *(("TIME(3)", "time(3)"), ("time(0) without time zone", "time(0)")),
        *(("interval", "interval"), ("INTERVAL YEAR", "interval year")),
        ("interval year  to\nmonth", "interval year to month"),
        *(("interval month", "interval month"), ("interval day", "interval day")),
        ("interval day to second", "interval day to second"),
        ("interval hour to minute", "interval hour to minute"),
        ("interval minute to second", "interval minute to second"),
        *(("void", "void"), ("variant", "variant")),
        *(("geometry(4326)", "geometry(4326)"), ("GEOMETRY(ANY)", "geometry(any)")),
        *(("geography( 4326 )", "geography(4326)"), ("geography(any)", "geography(any)")),
        *(("BIGINT", "bigint"), (" Int\t", "int")),
    ],
)
def test_a_simple_type_has_one_spelling(text: str, normal: str) -> None:
    assert normalise(text) == normal
    assert normalise(text.upper()) == normal
    assert normalise(normal) == normal


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("ARRAY< INT >", "array<int>"),
        ("map<string,array<map<int,int>>>", "map<string,array<map<int,int>>>"),
        ("STRUCT<A: INT>", "struct<A:int>"),
        ("struct<>", "struct<>"),
        ("struct< >", "struct<>"),
        ("struct<a int, b long>", "struct<a:int,b:bigint>"),
        ("struct<a:int,A:int>", "struct<a:int,A:int>"),
        ("struct<`a`:int>", "struct<a:int>"),
        ("struct<`a b`:int, `c.d`: int>", "struct<`a b`:int,`c.d`:int>"),
        ("struct<`say ``hi```:int>", "struct<`say ``hi```:int>"),
        ("struct<`a,b<c>:'`:int>", "struct<`a,b<c>:'`:int>"),
        ("struct<größe:int>", "struct<`größe`:int>"),
        ("struct<1:int,2b:int>", "struct<`1`:int,`2b`:int>"),
        ("struct<`a/b`:int>", "struct<`a/b`:int>"),
        ("struct<struct:struct<int:int>>", "struct<struct:struct<int:int>>"),
        ("struct<not int not null>", "struct<not:int not null>"),
        ("struct<comment:string COMMENT 'x'>", "struct<comment:string comment 'x'>"),
        ("struct<interval interval day NOT NULL>", "struct<interval:interval day not null>"),
        (
            "struct<a:decimal NOT  NULL Comment 'x', b:timestamp without time zone>",
            "struct<a:decimal(10,0) not null comment 'x',b:timestamp_ntz>",
        ),
    ],
)
def test_nested_types_and_field_names_have_one_spelling(text: str, normal: str) -> None:
    assert normalise(text) == normal
    assert normalise(normal) == normal


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        (r"''", ""),
        (r"'it\'s'", "it's"),
        (r"'it''s'", "it's"),
        (r'"it' + "'" + 's"', "it's"),
        (r'"two ' + "''" + ' quotes"', "two '' quotes"),
        (r'"say ""hi"" or \"ho\""', 'say "hi" or "ho"'),
        (r"'say \"" + '""' + "hi'", 'say """hi'),
        (r"'a > b, c < d: `e`'", "a > b, c < d: `e`"),
        (r"'C:\\dir'", "C:\\dir"),
        (r"'a\nb\tc\rd'", "a\nb\tc\rd"),
        ("'a\nb'", "a\nb"),
        (r"'\%\_\q'", "\\%\\_q"),
        (r"'\u00e9\U0001F600\101'", "é😀A"),
        (r"'\u12'", "u12"),
    ],
)
def test_a_comment_keeps_its_text_and_gets_one_way_of_quoting(literal: str, text: str) -> None:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    normal = f"struct<a:int comment '{escaped}'>"
    assert normalise(f"struct<a:int comment {literal}>") == normal
    assert normalise(normal) == normal


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "character 1: expected a type, found the end"),
        ("  ", "character 3: expected a type, found the end"),
        ("text", "character 1: unknown type 'text'"),
        ("strin", "did you mean string"),
        ("array<strukt<a:int>>", "character 7: unknown type 'strukt', did you mean struct"),
        ("`int`", "character 1: expected a type, found '`int`'"),
        ("int int", "character 5: expected the end of the type, found 'int'"),
        ("int,", "character 4: expected the end"),
        ("int(3)", "character 4: expected the end"),
        ("timestamp(3)", "character 10: expected the end"),
        ("a int, b int", "unknown type 'a'"),
        ("ınt", "unknown type"),
        ("decimal(0)", "character 9: the precision is a number from 1 to 38, not '0'"),
        ("decimal(39)", "precision .* not '39'"),
        ("decimal(5,6)", "character 11: the scale is a number from 0 to 5, not '6'"),
        ("decimal(-1)", "character 9: unexpected '-'"),
        ("decimal()", r"precision .* not '\)'"),
        ("decimal(10,2", r"character 13: expected '\)' as in decimal.*, found the end"),
        ("decimal(1٣)", "precision"),
        ("decimal(" + "9" * 5_000 + ")", "precision is a number"),
        ("char", r"character 5: expected '\(' as in char\(LENGTH\), found the end"),
        ("varchar(2147483648)", "the length is a number"),
        ("time(7)", "the precision is a number from 0 to 6"),
        ("timestamp_ntz(6)", "the precision is a number from 7 to 9"),
        ("timestamp_ltz(10)", "the precision is a number from 7 to 9"),
        ("timestamp_ntz(9", r"expected '\)' as in timestamp_ntz\(PRECISION\), found the end"),
        ("timestamp(9)", "character 10: expected the end"),
        ("string collate", "name of a collation, found the end"),
        ("string collate ß", "name of a collation"),
        ("timestamp with time zone", "character 16: expected 'local'"),
        ("interval month to year", "character 19: an interval ends in a smaller unit: nothing"),
        ("interval day to day", "hour or minute or second, not 'day'"),
        ("interval year to day", "month, not 'day'"),
        ("interval week", "expected the end"),
        ("geometry", r"geometry\(SRID\) or geometry\(any\), found the end"),
        ("geography(OGC:CRS84)", "the SRID is a number"),
        ("array", "expected '<' as in array<TYPE>, found the end"),
        ("array<>", "character 7: expected a type, found '>'"),
        ("array<int", "expected '>'"),
        ("array<int>>", "character 11: expected the end"),
        ("map<int>", "character 8: expected ','"),
        ("map<int,int,int>", "character 12: expected '>'"),
        ("struct", "expected '<'"),
        ("struct<", "character 8: expected the name of a field, found the end"),
        ("struct<a>", "character 9: expected a type, found '>'"),
        ("struct<a:int", "expected ','"),
        ("struct<a:int,>", "character 14: expected the name of a field, found '>'"),
        ("struct<a:int,b:int, a:long>", "character 21: the struct has two fields 'a'"),
        ("struct<a:int,`a`:int>", "character 14: the struct has two fields"),
        ("struct<a-b:int>", "character 9: unexpected '-'; a field's name that holds it needs back"),
        ("struct<``:int>", "character 8: field '' is not a valid name: it is empty"),
        ("struct<`a\nb`:int>", "character 8: field .* control character"),
        ("struct<`a\u202eb`:int>", "character 8: field .* reorders"),
        ("struct<`a:int>", "character 8: this backtick is never closed"),
        ("struct<a:int not>", "character 17: expected 'null'"),
        ("struct<a:int comment>", "character 21: expected a comment in quotes, found '>'"),
        ("struct<a:int comment x>", "character 22: expected a comment in quotes, found 'x'"),
        ("struct<a:int comment 'x>", "character 22: this quote is never closed"),
        ("struct<a:int comment '''>", "character 22: this quote is never closed"),
        (r"struct<a:int comment 'x\'>", "character 22: this quote is never closed"),
        (r"struct<a:int comment '\0'>", r"character 22: a comment .* U\+0000"),
        (r"struct<a:int comment '\ud800'>", "character 22: a comment .* surrogate"),
        (r"struct<a:int comment '\U00110000'>", "character 22: .* beyond the last character"),
        ("struct<a:int comment 'x' not null>", "character 26: expected ','"),
        ("int\0", r"character 4: unexpected '\\x00'"),
        ("int -- a note", "unexpected '-'"),
    ],
)
def test_an_error_in_a_type_is_reported_with_its_position(text: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason) as problem:
        normalise(text)
    assert len(str(problem.value)) < 300


@pytest.mark.parametrize(
    ("opening", "closing"), [("array<", ">"), ("map<int,", ">"), ("struct<a:", ">")]
)
def test_nesting_has_a_limit(opening: str, closing: str) -> None:
    deepest = opening * (MAX_DEPTH - 1) + "int" + closing * (MAX_DEPTH - 1)
    assert normalise(deepest) == deepest
    with pytest.raises(Invalid, match="nested more than 64 deep"):
        normalise(opening + deepest + closing)
    with pytest.raises(Invalid, match="nested more than 64 deep"):
        normalise(opening * 5_000)


def test_the_text_has_a_limit() -> None:
    assert normalise("int".ljust(MAX_CHARACTERS)) == "int"
    with pytest.raises(Invalid, match="65536 characters, not 65537"):
        normalise("int".ljust(MAX_CHARACTERS + 1))


def test_a_type_whose_normal_spelling_is_too_long_to_parse_is_refused() -> None:
    fields = ",".join(f"f{number} dec" for number in range(6_000))
    text = f"struct<{fields}>"
    assert len(text) <= MAX_CHARACTERS
    with pytest.raises(Invalid, match="at most 65536 characters"):
        normalise(text)


def test_long_runs_of_quotes_are_read_in_one_pass() -> None:
    for quote in "'\"`":
        for run in (quote * 65_001, (quote + "\\") * 32_000, quote + "x" * 65_000):
            with pytest.raises(Invalid):
                normalise(f"struct<a:int comment {run}")


PLAIN = st.one_of(
    st.sampled_from(
        [
            *("tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary"),
            *("boolean", "date", "timestamp", "timestamp_ntz", "void", "variant", "interval"),
            *("interval year", "interval month", "interval year to month", "interval second"),
            *("interval day", "interval day to second", "interval hour to minute", "time(6)"),
            *("geometry(any)", "geography(4326)", "string collate UTF8_LCASE"),
            *("timestamp_ntz(9)", "timestamp_ltz(9)"),
        ]
    ),
    st.integers(0, 2**31 - 1).map("char({})".format),
    st.integers(0, 2**31 - 1).map("varchar({})".format),
    st.integers(1, 38).flatmap(
        lambda precision: st.integers(0, precision).map(
            lambda scale: f"decimal({precision},{scale})"
        )
    ),
)


def can_be(check: Callable[[str], str], text: str) -> bool:
    try:
        check(text)
    except Invalid:
        return False
    return True


FIELD_NAMES = st.text(st.one_of(st.sampled_from("ab_1`' <>,:."), st.characters()), max_size=8)
COMMENTS = st.text(st.one_of(st.sampled_from("a'\"\\u\n0%"), st.characters()), max_size=8)


def print_field_name(name: str) -> str:
    letters = set(string.ascii_letters + "_")
    if name[0] in letters and set(name) <= letters | set(string.digits):
        return name
    return "`" + name.replace("`", "``") + "`"


def print_comment(text: str) -> str:
    return " comment '" + "".join("\\" * (letter in "'\\") + letter for letter in text) + "'"


def fields_of(types: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    name = FIELD_NAMES.filter(lambda text: can_be(check_column_name, text))
    comment = COMMENTS.filter(lambda text: can_be(check_comment, text)).map(print_comment)
    field = st.tuples(types, st.sampled_from(["", " not null"]), st.one_of(st.just(""), comment))
    return st.dictionaries(name, field, max_size=4).map(
        lambda fields: ",".join(
            f"{print_field_name(name)}:{''.join(parts)}" for name, parts in fields.items()
        )
    )


TYPES = st.recursive(
    PLAIN,
    lambda types: st.one_of(
        types.map("array<{}>".format),
        st.tuples(types, types).map(lambda both: f"map<{both[0]},{both[1]}>"),
        fields_of(types).map("struct<{}>".format),
    ),
    max_leaves=12,
)


@given(TYPES)
def test_a_normalised_type_is_its_own_normal_form(text: str) -> None:
    assert normalise(text) == text


@given(st.lists(st.one_of(st.sampled_from("<>,:( )`'\"\\"), TYPES, st.text(max_size=3))))
@example(["interval", " day to"])
def test_pieces_of_types_are_normalised_for_good_or_refused(pieces: list[str]) -> None:
    try:
        normal = normalise("".join(pieces))
    except Invalid:
        return
    assert normalise(normal) == normal


@given(st.text())
def test_garbage_is_refused_and_nothing_else_happens(text: str) -> None:
    for around in ("{}", "struct<{}:int>", "struct<`{}`:int>", "struct<a:int comment '{}'>"):
        try:
            normal = normalise(around.replace("{}", text))
        except Invalid:
            continue
        assert normalise(normal) == normal


@given(TYPES, st.data())
def test_a_type_cut_short_or_changed_in_one_place_is_normalised_for_good_or_refused(
    text: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(text) - 1))
    for changed in (text[:at], text[:at] + text[at + 1 :], text[:at] + "'" + text[at:]):
        try:
            normal = normalise(changed)
        except Invalid:
            continue
        assert normalise(normal) == normal
