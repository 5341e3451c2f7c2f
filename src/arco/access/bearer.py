"""The header `Authorization: Bearer x`, and the one sentence for whoever cannot prove who they are."""

import re

from arco.core.errors import Unauthenticated

REFUSED = "the bearer token is missing or not valid; ask for a new one"

TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)  # b64token of RFC 6750
_HEADER = re.compile(rf"bearer +({TOKEN.pattern})", re.ASCII | re.IGNORECASE)


def bearer(authorization: str | None) -> str:
    """The one token in the header's value, or `Unauthenticated`."""
    found = _HEADER.fullmatch(authorization or "")
    if found is None:
        raise Unauthenticated(REFUSED)
    return found[1]
