"""Requests that have begun to arrive and are not whole, by the address that they come from.

A connection counts from its start, and again from the first byte of each further request, until its request
is whole. One address may hold a quarter of a server's connections in this way: others find room, also while
it opens more than it ends.
"""

from collections import defaultdict
from typing import Protocol

_SHARE = 4


class HalfSentRequest(Protocol):
    """A connection whose request is not whole."""

    @property
    def address(self) -> str:
        """Where it comes from."""

    def end_half_sent(self) -> None:
        """End it, as it takes the room of others."""


class HalfSentRequests:
    """Those of one server, oldest first."""

    def __init__(self, connections: int) -> None:
        self._most = max(1, connections // _SHARE)
        self._by_address: defaultdict[str, dict[HalfSentRequest, None]] = defaultdict(dict)

    def add(self, request: HalfSentRequest) -> None:
        """It has begun to arrive."""
        self._by_address[request.address][request] = None

    def remove(self, request: HalfSentRequest) -> None:
        """It is whole, or its connection has ended."""
        held = self._by_address.get(request.address)
        if held is not None:
            held.pop(request, None)
            if not held:
                del self._by_address[request.address]

    def is_crowding(self, address: str) -> bool:
        """Whether an address holds more than its share."""
        return len(self._by_address.get(address, ())) > self._most

    def make_room(self, newcomer: str) -> bool:
        """End the oldest of the address that holds most, if it is another one and holds too many."""
        if not self._by_address:
            return False
        address, held = max(self._by_address.items(), key=lambda each: len(each[1]))
        if address == newcomer or not self.is_crowding(address):
            return False
        next(iter(held)).end_half_sent()
        return True
