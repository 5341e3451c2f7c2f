"""Bodies to store whose parts cannot be mistaken for one another."""

_MIB = 1024 * 1024


def large_body() -> bytes:
    """64 MiB, each MiB of its own: parts put together in a wrong order make another body."""
    return b"".join(bytes([number]) * _MIB for number in range(64))
