"""Looks of a moment ago, shared by requests that came at once.

Whoever asks must see what was committed before. So the answer of a look will do if the look began after the
request had come: of many that wait to be answered, the first looks, and the others have what it has found.
"""

from weakref import ref

from arco.iceberg.loaded import Loaded
from arco.iceberg.names import Name

_MOST = 1_000


class Recent:
    """The last look at each name."""

    def __init__(self) -> None:
        self._looks: dict[Name, tuple[float, ref[Loaded]]] = {}

    def since(self, since_ms: float, name: Name) -> Loaded | None:
        """What a look has found that began at this moment or later."""
        began_ms, found = self._looks.get(name, (0.0, None))
        return None if found is None or began_ms < since_ms else found()

    def note(self, began_ms: float, name: Name, found: Loaded) -> None:
        """A look that began then has found this."""
        if len(self._looks) >= _MOST:
            self._looks.clear()
        self._looks[name] = began_ms, ref(found)
