"""What the exploration found, as a table or as one counterexample."""

from collections.abc import Iterator

from tests.models.catalogue import sound, weakened
from tests.models.explorer import Exploration


def report() -> Iterator[str]:
    yield f"{'model':<40}{'states':>9}{'transitions':>13}{'depth':>7}  violation"
    for name, run in sound().items():
        yield line(name, run())
    yield ""
    yield f"{'without':<40}{'states':>9}{'transitions':>13}{'steps':>7}  violation"
    for name, run in weakened().items():
        yield line(name, run())


def line(name: str, exploration: Exploration) -> str:
    verdict = exploration.violation or "none"
    size = f"{exploration.states:>9}{exploration.transitions:>13}{exploration.depth:>7}"
    return f"{name:<40}{size}  {verdict}"


def counterexample(name: str) -> Iterator[str]:
    exploration = weakened()[name]()
    yield line(name, exploration)
    for number, label in enumerate(exploration.trace, start=1):
        yield f"{number:>4}  {label}"
