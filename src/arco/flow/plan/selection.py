"""What people write to choose assets and tasks.

    gold.spend_7d            this one; `gold.*` all of the schema
    +gold.spend_7d           and all that it is made from; `2+gold.spend_7d` two levels up
    raw.orders+              and all that is made from it; `raw.orders+1` one level down
    tag:daily owner:ana      by tag or owner, with `+` as well
    a, b   or   a b          one or the other

Nothing means everything.
"""

import difflib
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from arco.core.errors import Invalid
from arco.flow.define.source import SourceDef
from arco.flow.define.task import TaskDef
from arco.flow.plan.graph import Graph, MakerDef, Node
from arco.flow.plan.key import short_name

_TERM = re.compile(r"(?:(?P<up>[0-9]*)\+)?(?P<what>[^+]*)(?:\+(?P<down>[0-9]*))?")
_FIELDS = ("tag", "owner")


def selected(graph: Graph, selection: str) -> list[MakerDef]:
    """The assets and tasks that a text chooses, each after those that it reads from."""
    found: set[str] = set()
    for term in terms(selection):
        found |= _chosen(graph, term)
    return graph.in_order(found if terms(selection) else graph.nodes)


def terms(selection: str) -> list[str]:
    """The terms of a selection, each once, in the order in which they stand there."""
    return list(dict.fromkeys(selection.replace(",", " ").split()))


def _chosen(graph: Graph, term: str) -> set[str]:
    said = _TERM.fullmatch(term)
    if said is None or not said["what"]:
        raise Invalid(
            f"{term!r} does not choose anything: write '+gold.orders', 'gold.orders+' or 'tag:daily'"
        )
    named = [name for name, node in graph.nodes.items() if _is_meant(node, said["what"])]
    if not named:
        raise Invalid(_unknown(graph, said["what"]))
    found = set(named)
    if said["up"] is not None:
        found |= graph.upstream(named, int(said["up"]) if said["up"] else None)
    if said["down"] is not None:
        found |= graph.downstream(named, int(said["down"]) if said["down"] else None)
    if all(isinstance(graph.nodes[name], SourceDef) for name in found):
        raise Invalid(
            f"{term!r} chooses only sources, which nothing here makes: write '{said['what']}+' for "
            "all that is made from them"
        )
    return found


def _is_meant(node: Node, what: str) -> bool:
    field, colon, value = what.partition(":")
    if colon and field in _FIELDS:
        said = node.tags if field == "tag" else (node.owner,) if node.owner else ()
        return any(fnmatchcase(each, value) for each in said)
    return any(fnmatchcase(name, what) for name in names_of(node))


def names_of(node: Node) -> Iterator[str]:
    """All names by which a node may be called."""
    tables = [node.name] if isinstance(node, SourceDef | TaskDef) else []
    if not isinstance(node, SourceDef):
        tables += [output.table for output in node.outputs]
    for table in tables:
        yield table
        yield short_name(table)


def _unknown(graph: Graph, what: str) -> str:
    field, colon, value = what.partition(":")
    if colon and field in _FIELDS:
        return f"nothing has the {field} {value!r}{near(value, _said(graph, field))}"
    names = {short_name(name) for node in graph.nodes.values() for name in names_of(node)}
    if any(letter in what for letter in "*?["):
        return f"no asset or task matches {what!r}{near(what, names)}"
    return f"there is no asset or task {what!r}{near(what, names)}"


def _said(graph: Graph, field: str) -> set[str]:
    if field == "tag":
        return {tag for node in graph.nodes.values() for tag in node.tags}
    return {node.owner for node in graph.nodes.values() if node.owner}


def near(word: str, words: set[str]) -> str:
    """The words that may be meant; where none is near, the first few that there are."""
    close = difflib.get_close_matches(word, sorted(words), n=3, cutoff=0.6)
    if close:
        return f"; is {' or '.join(close)} meant?"
    listed = sorted(words)
    more = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
    return f": there {'are' if len(listed) > 1 else 'is'} {', '.join(listed[:5])}{more}" * bool(
        listed
    )
