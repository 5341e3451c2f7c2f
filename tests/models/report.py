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


def line(name: str, found: Exploration) -> str:
    verdict = found.violation or "none"
    return f"{name:<40}{found.states:>9}{found.transitions:>13}{found.depth:>7}  {verdict}"


def counterexample(name: str) -> Iterator[str]:
    found = weakened()[name]()
    yield line(name, found)
    for number, label in enumerate(found.trace, start=1):
        yield f"{number:>4}  {label}"
