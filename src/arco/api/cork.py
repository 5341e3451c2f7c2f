"""A transport that sends together what is written in one step of the loop: an answer's head and its body.

The server writes the two apart, and each would be a system call and a packet of its own.
"""

from typing import Any

_LARGE_BYTES = 64 * 1024  # is not copied to be joined with a few headers


class Corked:
    """Another transport; what is not about writing goes straight to it."""

    def __init__(self, transport: Any, loop: Any) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send it soon, with what is written meanwhile."""
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)
        if len(data) > _LARGE_BYTES:
            self._flush()

    def close(self) -> None:
        """Send what is held, then close."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._held.clear()
        self._transport.abort()

    def get_write_buffer_size(self) -> int:
        """How much was not sent yet."""
        unsent: int = self._transport.get_write_buffer_size()
        return unsent + sum(map(len, self._held))

    def _flush(self) -> None:
        held, self._held = self._held, []
        if not held or self._transport.is_closing():
            return
        if len(held[-1]) > _LARGE_BYTES:
            for each in held:
                self._transport.write(each)
        else:
            self._transport.write(b"".join(held))
