"""Which names of the module around it a statement uses, and what it does with them."""

import ast
import symtable
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Used:
    """A name, and the attributes that follow it: `shared.prices.clean` is one use."""

    name: str
    attributes: tuple[str, ...] = ()


def names_used(statement: ast.stmt) -> list[Used]:
    """The uses of names that are not the statement's own, each once, in the order of their text.

    Scopes are worked out by Python itself, so a parameter hides a function of the same name.
    """
    outside = _outside(statement)
    chains = {chain for chain in _chains(statement) if chain.name in outside}
    return sorted(chains)


def _outside(statement: ast.stmt) -> set[str]:
    text = ast.unparse(ast.fix_missing_locations(ast.Module([statement], [])))
    top = symtable.symtable(text, "<unit>", "exec")
    names = {each.get_name() for each in top.get_symbols() if each.is_referenced()}
    for table in _below(top):
        names |= {each.get_name() for each in table.get_symbols() if each.is_global()}
    return names


def _below(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _below(child)


def _chains(statement: ast.stmt) -> Iterator[Used]:
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        attributes: list[str] = []
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            attributes.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            yield Used(inner.id, tuple(attributes))
        else:
            pending += ast.iter_child_nodes(node)
