"""Columns: what a table of state may hold, and how it lies in a file."""

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa


class Kind(Enum):
    """The types that tables of state are made of; every engine reads them alike."""

    STRING = "string"
    INTEGER = "int64"
    BOOLEAN = "boolean"
    TIME = "timestamp"  # microseconds, UTC
    STRINGS = "list<string>"
    TEXTS = "map<string,string>"
    BYTES = "binary"

    def arrow(self) -> pa.DataType:
        """The type in memory and in the file."""
        return _ARROW[self]


_ARROW = {
    Kind.STRING: pa.string(),
    Kind.INTEGER: pa.int64(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.TIME: pa.timestamp("us", tz="UTC"),
    Kind.STRINGS: pa.list_(pa.string()),
    Kind.TEXTS: pa.map_(pa.string(), pa.string()),
    Kind.BYTES: pa.binary(),
}


@dataclass(frozen=True)
class Column:
    """One column. A name that begins with an underscore is for the fold, not for readers."""

    name: str
    kind: Kind = Kind.STRING

    @property
    def hidden(self) -> bool:
        return self.name.startswith("_")


def columns(**kinds: Kind) -> tuple[Column, ...]:
    """Columns by name, in the order in which they are written here."""
    return tuple(Column(name, kind) for name, kind in kinds.items())
