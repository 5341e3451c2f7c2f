"""Several writers at once, each a process of its own, and what they were told."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.interop.rest import Rest


@dataclass(frozen=True)
class Said:
    """What writers were told: the ids that were acknowledged, and those whose outcome is open."""

    done: frozenset[int]
    unknown: frozenset[int]

    def wrong(self, found: Sequence[int]) -> list[str]:
        """All that is wrong with the ids that are there in the end."""
        lost = self.done.difference(found)
        doubled = [each for each, count in Counter(found).items() if count > 1]
        strange = set(found) - self.done - self.unknown
        kinds = {"lost": lost, "doubled": doubled, "there though refused": strange}
        return [f"{kind}: {sorted(ids)}" for kind, ids in kinds.items() if ids]


class Writers:
    """So many processes of one module; the ids of each begin with a thousand of their own."""

    def __init__(self, module: str, rest: Rest, target: str, *, count: int, rows: int) -> None:
        command = [sys.executable, "-m", module, rest.uri, rest.warehouse, target]
        self._processes = [
            subprocess.Popen(
                [*command, str(1_000 * writer), str(rows)], stdout=subprocess.PIPE, text=True
            )
            for writer in range(1, count + 1)
        ]

    def are_busy(self) -> bool:
        """Whether any of them still writes."""
        return any(process.poll() is None for process in self._processes)

    def said(self) -> Said:
        """What they were told, once all are done."""
        told = []
        for process in self._processes:
            output, _ = process.communicate()
            assert process.returncode == 0, "a writer has failed; what it said is above"
            told.append(json.loads(output))
        return Said(
            frozenset(each for one in told for each in one["done"]),
            frozenset(each for one in told for each in one["unknown"]),
        )
