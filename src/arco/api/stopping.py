"""That a server is about to stop: whoever waits for something to happen is answered, and asks elsewhere."""

from dataclasses import dataclass


@dataclass
class Stopping:
    """Set by the server, seen by handlers that wait."""

    is_asked: bool = False
