"""Claims and outcomes: what the chain of an idempotency key holds (P10).

Number 0 is the first claim; the next number is an outcome or a takeover claim, and put-if-absent decides
which. A claim fixes the ids that its work will use and the number of the target chain from which to look
for its request, so that whoever takes over does the same work, or finds it done.
"""

import msgspec

from arco.core import json
from arco.core.errors import Invalid
from arco.core.hashing import sha256_hex
from arco.core.scope import Scope

KEYS = "_catalog/idempotency/"

# Verdicts computed from the state of a chain. A refusal of the caller, an overload or a failure of ours
# says nothing about the request, and is never kept (P12).
_VERDICTS = frozenset({400, 404, 406, 409, 410, 412, 413, 422})


class Claim(msgspec.Struct, frozen=True, kw_only=True, tag="claim", tag_field="kind"):
    """Somebody works on the request, or did."""

    request_sha256: str
    request_id: str
    ids: dict[str, str]
    base: int
    life_ms: int  # of the key, from its number 0 on; a takeover repeats it, and collectors obey it


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a request is answered: success, or a verdict that will be the same tomorrow."""

    status: int
    body: msgspec.Raw = msgspec.Raw(b"null")
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    has_landed: bool = True  # whether the target shows a success; else only the outcome does

    def __post_init__(self) -> None:
        if not self.succeeded and self.status not in _VERDICTS:
            raise Invalid(f"status {self.status} is no verdict on a request")
        json.decode(bytes(self.body), msgspec.Raw)  # what is not JSON would spoil the whole link

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status < 300


class Outcome(msgspec.Struct, frozen=True, kw_only=True, tag="outcome", tag_field="kind"):
    """The request was answered like this, for good."""

    request_sha256: str
    answer: Answer


State = Claim | Outcome


def key_path(scope: Scope, *, principal: str, api: str, operation: str, key: str) -> str:
    """Where the chain of a key lives: a hash of all that tells one caller's key from another's."""
    if not 0 < len(key) <= 255 or not key.isprintable():
        raise Invalid("an idempotency key has 1 to 255 printable characters")
    parts = ["1", scope.tenant, scope.workspace, principal, api, operation, key]
    digest = sha256_hex(json.canonical([*parts]))
    return f"{KEYS}{digest[:2]}/{digest}"
