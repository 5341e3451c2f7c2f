"""The check of names: a public class name is defined once in `src/arco`, and some module names are refused.

Two classes with one name make every search ambiguous, and a module called `utils` or `desk` does not say
what is in it. The glossary in the documentation has the words to use instead.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

SOURCE = Path("src/arco")

REFUSED_MODULES = frozenset(
    """
    above aftermath again away bell birth book born common cork crew deed desk door doubt errand found
    helpers here how known lanes manager misc one_book part placed ruling said scene shelf standing
    stuck talk telling things told trouble untold util utils voice whole
    """.split()  # noqa: SIM905 - a list of words is read best as text
)


def public_classes(tree: ast.Module) -> Iterator[str]:
    """The names of the public classes that a module defines."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def problems(files: Iterable[Path]) -> list[str]:
    """One line for each name that is refused."""
    defined: dict[str, list[Path]] = defaultdict(list)
    lines = []
    for path in sorted(files):
        if path.stem in REFUSED_MODULES:
            lines.append(
                f"{path}: the module name {path.stem!r} does not say what the module is about"
            )
        for name in public_classes(ast.parse(path.read_text())):
            defined[name].append(path)
    for name, places in sorted(defined.items()):
        if len(places) > 1:
            where = ", ".join(map(str, places))
            lines.append(f"class {name} is defined {len(places)} times: {where}")
    return lines


def main() -> int:
    """Print the problems; 1 if there are any."""
    lines = problems(SOURCE.rglob("*.py"))
    for line in lines:
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
