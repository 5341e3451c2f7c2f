"""Fields: what payloads are made of, and how much of it.

Bounds are checked by the decoder itself, at the door and again when a line is folded; patterns are not
used, as they would cost more than all the rest of reading an event.
"""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from arco.core import json

Id = Annotated[str, Meta(min_length=1, max_length=255)]
Text = Annotated[str, Meta(max_length=4_096)]
Message = Annotated[str, Meta(max_length=65_536)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Attempt = Annotated[int, Meta(ge=1, le=2**31)]
Moment = Annotated[datetime, Meta(tz=True)]
Ids = Annotated[tuple[Id, ...], Meta(max_length=10_000)]
Key = Annotated[str, Meta(max_length=4_096)]
Keys = Annotated[tuple[Key, ...], Meta(max_length=10_000)]
Values = Annotated[dict[Id, Annotated[str, Meta(max_length=1_024)]], Meta(max_length=64)]
Metrics = Annotated[
    dict[Id, Annotated[str, Meta(max_length=4_096)] | int | float | bool], Meta(max_length=1_000)
]


class Payload(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    gc=False,
):
    """What an event says. The docstring of each is its one sentence in the documentation."""


def texts(metrics: dict[str, str | int | float | bool]) -> list[tuple[str, str]]:
    """Figures as a map of texts, spelled as JSON spells them."""
    return [
        (name, value if isinstance(value, str) else json.encode(value).decode())
        for name, value in metrics.items()
    ]
