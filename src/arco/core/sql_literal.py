"""Text as literals of standard SQL, as DataFusion, DuckDB and Trino read it.

A quote is doubled, and no other character has a meaning in a literal. Spark SQL is different: there a
backslash escapes, so these literals are not for Spark.
"""

from collections.abc import Iterable


def quote_text(text: str) -> str:
    """`text` as an SQL literal, quotes included."""
    return "'" + text.replace("'", "''") + "'"


def quote_texts(texts: Iterable[str]) -> str:
    """Literals separated by commas, for `IN (...)`."""
    return ", ".join(map(quote_text, texts))
