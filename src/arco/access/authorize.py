"""The one decision: whether this principal may do this to that.

What the identity allows is decided here: everything within its own scope, and nothing beyond it. The
answer is one sentence whatever the reason, so that a refusal tells nothing about what exists.
"""

from dataclasses import dataclass

from arco.access.operation import MATRIX, Operation, Target
from arco.access.principal import Principal
from arco.core.errors import Denied
from arco.core.ids import ObjectId
from arco.core.scope import Scope

_REFUSED = "this identity may not do that"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What an operation acts on; a workspace has no id besides its scope."""

    scope: Scope
    kind: Target = Target.WORKSPACE
    id: ObjectId | None = None


def authorize(principal: Principal, operation: Operation, target: Subject) -> None:
    """Return if it may, raise `Denied` if not.

    A target of a kind that the operation is not about is refused too: it would mean that the caller
    asks about one thing and acts on another.
    """
    rule = MATRIX[operation]
    if rule.role is None:
        return
    if (
        principal.role is not rule.role
        or principal.scope != target.scope
        or target.kind not in rule.targets
    ):
        raise Denied(_REFUSED)
