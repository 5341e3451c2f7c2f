"""Who is asking: a user or a client, of one scope, with the groups it belongs to.

A name is `user:x` or `client:x`. Groups are told apart from them by their place alone, so a user who
calls himself `group:admins` is refused, not taken for a group.
"""

from enum import StrEnum

import msgspec

from arco.core.errors import Invalid
from arco.core.scope import Scope

LOCAL = "user:local"  # everybody, where no identity is asked for

_KINDS = ("user", "client")
_LONGEST = 255


class Role(StrEnum):
    """What kind of caller it is: the two may do nothing in common."""

    CALLER = "caller"
    SERVICE = "service"  # one of our own processes; no token that is minted ever says so


class Principal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A proven identity; there is no such thing as half of one."""

    name: str
    scope: Scope
    groups: tuple[str, ...] = ()
    role: Role = Role.CALLER

    def __post_init__(self) -> None:
        kind, _, rest = self.name.partition(":")
        if kind not in _KINDS or not _is_label(rest):
            raise Invalid(
                f"a principal is 'user:' or 'client:' and 1 to {_LONGEST} printable characters"
            )
        if not all(map(_is_label, self.groups)):
            raise Invalid(f"a group has 1 to {_LONGEST} printable characters")
        if self.role is Role.SERVICE and kind != "client":
            raise Invalid("a service is a 'client:'")


def _is_label(text: str) -> bool:
    return 1 <= len(text) <= _LONGEST and text.isprintable()
