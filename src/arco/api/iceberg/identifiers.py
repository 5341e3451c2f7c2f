"""Lists of what lies in a namespace: tables, views, functions."""

from collections.abc import Sequence

import msgspec

from arco.api.iceberg.desk import answer
from arco.api.route import Reply


class Identifier(msgspec.Struct, frozen=True):
    """The name of something in a namespace."""

    namespace: tuple[str, ...]
    name: str


class IdentifierPage(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Some names, or all."""

    identifiers: Sequence[Identifier]
    next_page_token: str | None


def identifiers(namespace: tuple[str, ...], names: Sequence[str], token: str | None) -> Reply:
    """The reply with one page of names."""
    found = [Identifier(namespace, name) for name in names]
    return answer(IdentifierPage(identifiers=found, next_page_token=token))
