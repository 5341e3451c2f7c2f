"""Walks from table to table, breadth first: each table once, at its shortest distance, so cycles end."""

from dataclasses import dataclass

import numpy as np

from arco.query.lineage.codes import Places, ranges
from arco.query.lineage.graph import Graph

FAR = np.iinfo(np.int64).max  # the distance of what was not reached


@dataclass(frozen=True)
class Walked:
    """The pairs that were followed, and how far each table is; `FAR` if it was not reached."""

    pairs: Places
    up: Places
    down: Places


def walk(graph: Graph, start: int, *, up: bool, down: bool, depth: int) -> Walked:
    """Follow pairs against their direction and with it, at most so many in a row."""
    nothing = np.full(len(graph.tables), FAR, np.int64)
    above, ups = _spread(graph, start, depth, up=True) if up else (nothing[:0], nothing)
    below, downs = _spread(graph, start, depth, up=False) if down else (nothing[:0], nothing)
    return Walked(np.union1d(above, below), ups, downs)


def _spread(graph: Graph, start: int, depth: int, *, up: bool) -> tuple[Places, Places]:
    ends = graph.pair_sources if up else graph.pair_targets
    begins = graph.in_starts if up else graph.out_starts
    distances = np.full(len(graph.tables), FAR, np.int64)
    distances[start] = 0
    frontier = np.array([start])
    followed = []
    for distance in range(1, depth + 1):
        pairs = ranges(begins[frontier], begins[frontier + 1])
        pairs = graph.in_pairs[pairs] if up else pairs
        followed.append(pairs)
        reached = ends[pairs]
        frontier = np.unique(reached[distances[reached] == FAR])
        if not len(frontier):
            break
        distances[frontier] = distance
    return np.concatenate(followed), distances
