"""Meaning: whether rows say what the oracle foretold."""

from typing import Any

from arco.fold.tier2 import EXECUTIONS_DOMAIN, OCCURRED, QUARANTINE, TIER2
from tests.differential.history import History
from tests.differential.oracle import foretell
from tests.differential.rows import Tables

_Rows = dict[tuple[Any, ...], dict[str, Any]]


def meanings(history: History, found: Tables) -> list[str]:
    """What is wrong about the rows of a history."""
    wrong = _quarantine(history, found)
    if history.domain != EXECUTIONS_DOMAIN:
        return wrong
    for name, rows in foretell(history).items():
        seen = _by_key(found, name)
        if seen.keys() != rows.keys():
            wrong.append(f"oracle: {name}: there are {sorted(seen)}, not {sorted(rows)}")
            continue
        for key, row in rows.items():
            wrong += [f"oracle: {name} {key}: {problem}" for problem in row.problems(seen[key])]
    return wrong


def _by_key(found: Tables, name: str) -> _Rows:
    """Rows with all columns that say something, by their keys."""
    if name not in found:
        return {}
    table = TIER2[EXECUTIONS_DOMAIN][name]
    rows = found[name].select([*table.visible, OCCURRED]).to_pylist()
    return {tuple(row.pop(part) for part in table.key): row for row in rows}


def _quarantine(history: History, found: Tables) -> list[str]:
    """All lines that nobody can fold are kept as they are, and no others."""
    wanted = {event.line.decode(errors="replace") for event in history.events if event.said is None}
    rows = found[QUARANTINE.name].to_pylist() if QUARANTINE.name in found else []
    kept = {row["body"] for row in rows if row["reason"] is not None}
    if QUARANTINE.name in history.bounds:
        wanted &= kept  # the oldest may have been let go
    return [] if kept == wanted else [f"oracle: quarantine: {kept ^ wanted}"]
