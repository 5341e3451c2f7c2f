"""Syntax trees without what means nothing: comments, docstrings, positions, and the version of Python."""

import ast

Plain = str | list["Plain"]
"""Nested lists of texts: what a tree is written as before it is hashed."""


def plain(node: ast.AST) -> Plain:
    """A tree as nested lists; empty fields are left out, since a newer Python has more of them."""
    written: list[Plain] = [type(node).__name__]
    for name, value in ast.iter_fields(node):
        if name in ("type_comment", "kind", "ctx") or value is None or value == []:
            if isinstance(node, ast.Constant) and name == "value":
                written.append(["value", "None"])
            continue
        written.append([name, _field(value)])
    return written


def _field(value: object) -> Plain:
    if isinstance(value, ast.AST):
        return plain(value)
    if isinstance(value, list):
        kept = [each for each in value if not is_remark(each)]
        return [_field(each) for each in kept]
    return f"{type(value).__name__}:{value!r}"


def is_remark(node: object) -> bool:
    """Whether a statement is a text that stands alone: a docstring, or a comment in other clothes."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
