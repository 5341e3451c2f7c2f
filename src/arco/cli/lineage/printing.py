"""Printing an answer in the way that was asked for."""

from enum import Enum

from arco.cli.lineage.dot import to_dot
from arco.cli.lineage.drawing import draw_impact, draw_lineage
from arco.cli.lineage.mermaid import to_mermaid
from arco.cli.lineage.tree import affected_rows, print_tree, tree_of
from arco.cli.listing import print_rows
from arco.cli.output import print_document
from arco.cli.verbs import print_raw
from arco.core import json
from arco.query.lineage.response import Impact, Lineage

_MORE = "There is more than one answer holds: this is the nearest part."


class Style(Enum):
    """How an answer is printed."""

    PLAIN = "plain"
    JSON = "json"
    MERMAID = "mermaid"
    DOT = "dot"


def print_lineage(document: bytes, style: Style) -> None:
    """Print what a table is made of and what is made of it."""
    if style is Style.JSON:
        print_document(_with_run_ids(json.decode(document, object)))
        return
    told = json.decode(document, Lineage)
    if style is Style.PLAIN:
        print_tree(tree_of(told))
        if not told.edges:
            print("Nothing was seen to be made of it, nor it of anything.")
        if told.truncated:
            print(_MORE)
    else:
        print((to_dot if style is Style.DOT else to_mermaid)(draw_lineage(told)), end="")


def print_impact(document: bytes, style: Style) -> None:
    """Print all that depends on a column."""
    if style is Style.JSON:
        print_raw(document)
        return
    told = json.decode(document, Impact)
    if style is not Style.PLAIN:
        print((to_dot if style is Style.DOT else to_mermaid)(draw_impact(told)), end="")
    elif told.affected:
        print_rows(("AFFECTED", "HOW", "STEPS", "BY"), [affected_rows(told)])
        if told.truncated:
            print(_MORE)
    else:
        print("Nothing is known to depend on it.")


def _with_run_ids(value: object) -> object:
    """The API's document with `execution_id` named `run_id`, as in all JSON of the command line."""
    if isinstance(value, dict):
        return {
            "run_id" if key == "execution_id" else key: _with_run_ids(each)
            for key, each in value.items()
        }
    return [_with_run_ids(each) for each in value] if isinstance(value, list) else value
