"""Principals: a user or a client of one scope, with its groups.

A name is `user:x` or `client:x`. Groups are a separate field without a prefix, so a user named
`group:admins` is rejected and never taken for a group.
"""

from enum import StrEnum

import msgspec

from arco.core.errors import Invalid
from arco.core.scope import Scope

LOCAL_USER = "user:local"  # every caller, where authentication is off

_KINDS = ("user", "client")
_MAX_CHARS = 255


class PrincipalRole(StrEnum):
    """The kind of a principal. No operation is open to both."""

    CALLER = "caller"
    SERVICE = "service"  # one of Arco's own processes; minted tokens never have this role


class Principal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A proven identity."""

    name: str
    scope: Scope
    groups: tuple[str, ...] = ()
    role: PrincipalRole = PrincipalRole.CALLER

    def __post_init__(self) -> None:
        kind, _, rest = self.name.partition(":")
        if kind not in _KINDS or not _is_label(rest):
            raise Invalid(
                f"a principal is 'user:' or 'client:' and 1 to {_MAX_CHARS} printable characters"
            )
        if not all(map(_is_label, self.groups)):
            raise Invalid(f"a group has 1 to {_MAX_CHARS} printable characters")
        if self.role is PrincipalRole.SERVICE and kind != "client":
            raise Invalid("a service is a 'client:'")


def _is_label(text: str) -> bool:
    return 1 <= len(text) <= _MAX_CHARS and text.isprintable()
