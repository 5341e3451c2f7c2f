"""The watermark: how far a domain's streams were folded, published with its manifest (P16).

It names the first slot not yet looked at, and of each stream that is still open the last segment that
was folded. A stream leaves it only when its seal was folded; a slot below the frontier that is not
open is closed for good.
"""

import msgspec


class Watermark(msgspec.Struct, frozen=True):
    """A domain's position in its ledger."""

    frontier: int = 0
    open: dict[str, int] = msgspec.field(default_factory=dict)

    def registered(self, stream: str) -> "Watermark":
        """With the stream of the frontier's slot open, and the frontier one further."""
        return Watermark(self.frontier + 1, {**self.open, stream: -1})

    def folded(self, stream: str, seq: int, *, seal: bool) -> "Watermark":
        """With segment `seq` of `stream` folded; a seal closes the stream."""
        rest = {each: last for each, last in self.open.items() if each != stream}
        return Watermark(self.frontier, rest if seal else {**rest, stream: seq})
