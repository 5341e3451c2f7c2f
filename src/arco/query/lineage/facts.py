"""Facts of pairs: what all edges between two tables say together."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from arco.query.lineage.codes import Places, code
from arco.query.lineage.graph import NEVER, TABLE, Graph


@dataclass(frozen=True)
class Facts:
    """Of each pair: its newest edge, when it was first and last seen, and as how sound."""

    newest: Places
    first: pa.Array
    last: pa.Array
    columns: Places
    _sounds: Places
    _words: list[str]

    def soundness(self, pairs: Places) -> list[tuple[str, ...]]:
        """All that the edges of each of these say of how sound they are."""
        bits = self._sounds[pairs].tolist()
        told = {
            each: tuple(word for at, word in enumerate(self._words) if each >> at & 1)
            for each in set(bits)
        }
        return [told[each] for each in bits]


def facts_of(graph: Graph) -> Facts:
    """The facts of all pairs."""
    begins = graph.pair_starts[:-1]
    sizes = np.diff(graph.pair_starts)
    [sounds], words = code([graph.rows.column("soundness").combine_chunks()])
    times = graph.rows.column("last_observed_at").combine_chunks()
    last = times.cast(pa.int64()).fill_null(-1).to_numpy()
    order = np.lexsort((-last, np.repeat(np.arange(len(begins)), sizes)))
    newest = order[begins].astype(np.int64)
    first = graph.rows.column("first_observed_at").combine_chunks()
    earliest = first.cast(pa.int64()).fill_null(NEVER).to_numpy()
    least = np.minimum.reduceat(earliest, begins) if len(begins) else earliest
    return Facts(
        newest=newest,
        first=pa.array(least, mask=least == NEVER).cast(first.type),
        last=times.take(pa.array(newest)),
        columns=_sums((graph.reaches != TABLE).astype(np.int64), begins),
        _sounds=_bits(np.where(sounds < 0, 0, 1 << np.maximum(sounds, 0)), begins),
        _words=words,
    )


def _sums(values: Places, begins: Places) -> Places:
    return np.add.reduceat(values, begins) if len(begins) else values


def _bits(values: Places, begins: Places) -> Places:
    return np.bitwise_or.reduceat(values, begins) if len(begins) else values
