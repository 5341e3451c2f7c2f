"""The trace: what happened, in order, as a running hash and, when asked for, as text.

Two runs of one seed have the same hash, or the simulator is not deterministic. Steps of tasks go into
the hash alone: in the text they would drown what the processes and the store did.
"""

import hashlib

_BATCH = 512


class Trace:
    """The history of one run."""

    def __init__(self, *, keep: bool = False) -> None:
        self.lines: list[str] = []
        self._keep = keep
        self._hash = hashlib.sha256()
        self._batch: list[str] = []
        self._moment = -1.0  # whose text is kept, as several things happen at one moment
        self._moment_text = ""

    def step(self, now_ms: float, task: str) -> None:
        """A task went on."""
        self._add(now_ms, task)

    def note(self, now_ms: float, process: str, what: str) -> None:
        """Something happened that a reader of the trace wants to see."""
        self._add(now_ms, f"{process} {what}")
        if self._keep:
            self.lines.append(f"{_clock_face(now_ms)}  {process:<12} {what}")

    def digest(self) -> str:
        """The hash of everything so far."""
        self._flush()
        return self._hash.hexdigest()

    def _add(self, now_ms: float, what: str) -> None:
        if now_ms != self._moment:
            self._moment, self._moment_text = now_ms, f"{now_ms!r} "
        batch = self._batch
        batch.append(self._moment_text + what)
        if len(batch) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        self._hash.update("\n".join(self._batch).encode())
        self._batch.clear()


def _clock_face(now_ms: float) -> str:
    seconds, ms = divmod(now_ms, 1_000)
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours:3d}:{minute:02d}:{second:02d}.{int(ms):03d}"
