"""Territory: whose place a location is in: our warehouse, a declared place, or neither.

What is let in is compared as it is written, with a closing slash, since engines take a location as it
stands. What is kept out of our root is compared as the most lenient reader would see it. So a doubt is
always a no. A declared place may hold our root: inside the root, only the warehouse is ever reached.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from arco.catalog.location import canonical, check_text, overlap, refuse_tricks, undeclared
from arco.core.errors import Invalid

WAREHOUSE = "warehouse/"
LOCAL = "file://"

_SCOPE = re.compile(r"tenant=[^/]+/workspace=[^/]+/\Z")


@dataclass(frozen=True)
class Spot:
    """Where a location is."""

    declared: str | None  # the declared place that it is in; None for our own warehouse
    key: str  # its path below that place, or below our workspace
    spelled: str  # as equal places are spelled alike, with a closing slash


class Territory:
    """Our workspace at `root_url`, and the places that were declared."""

    def __init__(self, root_url: str, declared: Iterable[str]) -> None:
        if not root_url.endswith("/"):
            raise Invalid("the root of a workspace is a URL with a closing slash")
        self.root = root_url
        self.store_root = _SCOPE.sub("", root_url)  # other workspaces are no more open to us
        # The longest first: a place in another has its own rights.
        self.declared = tuple(sorted({canonical(each) for each in declared}, key=len, reverse=True))

    def find(self, location: str) -> Spot:
        """Where `location` is, or `Invalid` with what to do."""
        spelled = self._spell(location)
        if spelled.startswith(self.root):
            key = spelled.removeprefix(self.root)[:-1]
            if not key.startswith(WAREHOUSE):
                raise _not_a_table()
            return Spot(None, key, spelled)
        if overlap(spelled, self.store_root):
            raise _not_a_table()
        for place in self.declared:
            if spelled.startswith(place):
                return Spot(place, spelled.removeprefix(place)[:-1], spelled)
        raise undeclared(location)

    def _spell(self, location: str) -> str:
        if location.startswith(self.root):
            # Our own root is spelled by ourselves, and may be of a kind that no engine reads.
            check_text(location)
            refuse_tricks("/" + location.removeprefix(self.root))
            return location.rstrip("/") + "/"
        return canonical(LOCAL + location if location.startswith("/") else location)


def _not_a_table() -> Invalid:
    return Invalid(
        "this place belongs to Arco itself: leave the location out, and the table gets one of its own"
    )
