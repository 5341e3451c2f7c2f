import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core.sql_literal import quote_text, quote_texts

# SQLite reads literals by the standard. Its statements cannot hold null characters or surrogates.
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("", "''"),
        ("orders", "'orders'"),
        ("it's", "'it''s'"),
        ("'", "''''"),
        ("\\'; DROP TABLE t --", "'\\''; DROP TABLE t --'"),
        ('"a"\n%', "'\"a\"\n%'"),
    ],
)
def test_only_quotes_are_escaped(text: str, literal: str) -> None:
    assert quote_text(text) == literal


@given(st.lists(texts, min_size=1, max_size=5))
def test_a_database_reads_the_same_texts(values: list[str]) -> None:
    with sqlite3.connect(":memory:") as database:
        [row] = database.execute(f"SELECT {quote_texts(values)}").fetchall()
    assert list(row) == values


def test_no_texts_make_an_empty_list() -> None:
    assert quote_texts([]) == ""
