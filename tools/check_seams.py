"""The check of law 12, and of who may import which heavy library.

Time, randomness, ids, sleep and concurrency are arguments: outside the seam nothing may import or name
what would fetch them from the machine, or the simulator could not replay a run. This walks the syntax
trees of `src/arco`, follows aliases, and fails with one line for each place. It is a guard against
slips, not against malice.
"""

import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path("src/arco")

# Modules that are nothing but time, randomness or concurrency. Their submodules are meant too.
CLOCKS_AND_DICE = {
    "_random": "take the rng as an argument",
    "_thread": "take the tasks as an argument",
    "anyio": "take the tasks as an argument",
    "asyncio": "take the tasks as an argument",
    "concurrent.futures": "take the tasks as an argument",
    "curio": "take the tasks as an argument",
    "gevent": "take the tasks as an argument",
    "multiprocessing": "take the tasks as an argument",
    "numpy.random": "take the rng as an argument",
    "random": "take the rng as an argument",
    "sched": "take the clock as an argument",
    "secrets": "take the rng as an argument",
    "select": "take the tasks as an argument",
    "selectors": "take the tasks as an argument",
    "tempfile": "it names files at random: take the name as an argument",
    "time": "take the clock as an argument",
    "timeit": "take the clock as an argument",
    "trio": "take the tasks as an argument",
    "uvloop": "take the tasks as an argument",
}

# Names in modules that are otherwise harmless.
NAMES = {
    "datetime.date.today": "take the clock as an argument",
    "datetime.datetime.now": "take the clock as an argument",
    "datetime.datetime.today": "take the clock as an argument",
    "datetime.datetime.utcnow": "take the clock as an argument",
    "os.getrandom": "take the rng as an argument",
    "os.times": "take the clock as an argument",
    "os.urandom": "take the rng as an argument",
    "signal.alarm": "take the clock as an argument",
    "signal.setitimer": "take the clock as an argument",
    "signal.sigtimedwait": "take the clock as an argument",
    "ulid.ULID.from_datetime": "it draws from the machine: use arco.core.ids",
    "ulid.ULID.from_timestamp": "it draws from the machine: use arco.core.ids",
    "uuid.getnode": "take the rng as an argument",
    "uuid.uuid1": "use arco.core.ids",
    "uuid.uuid4": "use arco.core.ids",
    "uuid.uuid6": "use arco.core.ids",
    "uuid.uuid7": "use arco.core.ids",
}

# Harmless as a type, but not when called: without arguments they ask the machine.
CALLS = {"ulid.ULID": "it draws from the machine: use arco.core.ids"}

# A lock that is never held across an await, and the name of a thread, decide no order that matters.
HARMLESS_IN_THREADING = frozenset({"Lock", "RLock", "get_ident", "local"})


@dataclass(frozen=True)
class Permit:
    """What one file may use, and why."""

    path: str
    name: str
    reason: str


# The client is a library for users' programs: it has its own thread there, and waits for
# it. No simulator drives it; its time and randomness still come from the seams.
PERMITS = (
    Permit("server/listener.py", "signal.setitimer", "it ends a process whose loop may be stuck"),
    Permit("client/event_sender.py", "threading", "the thread that sends, and its bounded buffer"),
    Permit("client/transport.py", "threading", "a caller waits between two attempts"),
    Permit(
        "compactor/spark/memory.py",
        "threading",
        "it watches the memory of a worker beside its tasks",
    ),
    Permit("core/clock.py", "asyncio", "the system clock sleeps on the running loop"),
    Permit("core/clock.py", "time", "the system clock is read here and nowhere else"),
    Permit("core/runtime.py", "random", "the system's randomness enters here and nowhere else"),
    Permit("core/tasks.py", "asyncio", "tasks on the running loop are made here and nowhere else"),
    Permit("core/tasks.py", "concurrent.futures", "the threads behind `in_thread`"),
    Permit("core/tasks.py", "uvloop", "the loop of every process"),
    Permit("flow/define/modules.py", "threading", "imports of users' code wait for each other"),
    Permit("flow/spark/jvm.py", "time", "it bounds its own processor time, in no protocol"),
    Permit(
        "flow/spark/running_attempt.py", "threading", "it looks on while the threads of tasks work"
    ),
    Permit("flow/spark/commit_queue.py", "threading", "threads of attempts wait for their turn"),
)

# Libraries that one package hides from all others: a pattern of where, and the same in words.
HOMES = {
    "datafusion": (r"query/", "only query/ imports it"),
    "fastapi": (r"api/", "only api/ imports a web framework"),
    "granian": (r"api/", "only api/ imports a web server"),
    "obstore": (r"storage/", "only storage/ imports it"),
    "pyspark": (
        r"(compactor|flow)/(.+/)?spark",
        "only the spark modules of compactor/ and flow/ do",
    ),
    "starlette": (r"api/", "only api/ imports a web framework"),
    "uvicorn": (r"api/", "only api/ imports a web server"),
}


@dataclass(frozen=True, order=True)
class Finding:
    """One place that breaks the rule."""

    path: str
    line: int
    name: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name} is out of place: {self.advice}"


def check(source: Path) -> list[Finding]:
    """Everything that is wrong below `source`, unused permits included."""
    findings: list[Finding] = []
    needed: set[Permit] = set()
    for path in sorted(source.rglob("*.py")):
        relative = path.relative_to(source).as_posix()
        for finding in check_text(path.read_text(), relative):
            permit = _permit(finding)
            if permit is None:
                findings.append(finding)
            else:
                needed.add(permit)
    findings += [
        Finding(permit.path, 0, permit.name, "this permit is not used: remove it")
        for permit in PERMITS
        if permit not in needed and (source / permit.path).exists()
    ]
    return findings


def check_text(text: str, path: str) -> list[Finding]:
    """What one file uses, permitted or not; `path` is relative to src/arco."""
    walk = _Walk(path)
    walk.visit(ast.parse(text, path))
    return sorted(set(walk.findings))


def _permit(finding: Finding) -> Permit | None:
    for permit in PERMITS:
        if permit.path == finding.path and _below(finding.name, permit.name):
            return permit
    return None


class _Walk(ast.NodeVisitor):
    """Collects findings in one file, following what its imports are called there."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.findings: list[Finding] = []
        self._meaning: dict[str, str] = {}  # a local name, and the dotted name behind it

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._judge_import(node, alias.name)
            if alias.asname:
                self._meaning[alias.asname] = alias.name
            else:
                top = alias.name.partition(".")[0]
                self._meaning[top] = top

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        # A relative import is one of ours; its own name does not matter, only what it brings.
        module = "arco" if node.level else node.module or ""
        for alias in node.names:
            dotted = f"{module}.{alias.name}"
            self._judge_import(node, module if alias.name == "*" else dotted)
            self._meaning[alias.asname or alias.name] = dotted

    def visit_Attribute(self, node: ast.Attribute) -> None:
        dotted = self._dotted(node)
        if dotted is None:
            self.generic_visit(node)
        else:
            self._judge_name(node, dotted)

    def visit_Call(self, node: ast.Call) -> None:
        called = self._dotted(node.func) or ""
        if called in CALLS:
            self._report(node, called, CALLS[called])
        if called in ("__import__", "importlib.import_module", "importlib.__import__"):
            self._judge_dynamic(node)
        if called == "getattr" and len(node.args) > 1:
            name = node.args[1]
            owner = self._dotted(node.args[0])
            if owner and isinstance(name, ast.Constant) and isinstance(name.value, str):
                self._judge_name(node, f"{owner}.{name.value}")
        self.generic_visit(node)

    def _judge_dynamic(self, node: ast.Call) -> None:
        name = node.args[0] if node.args else None
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            self._judge_import(node, name.value)
        else:
            self._report(node, "a computed import", "name the module, so that it can be checked")

    def _judge_import(self, node: ast.AST, dotted: str) -> None:
        self._judge_name(node, dotted)
        library = dotted.partition(".")[0]
        home, advice = HOMES.get(library, ("", ""))
        if not re.match(home, self.path):
            self._report(node, library, advice)

    def _judge_name(self, node: ast.AST, dotted: str) -> None:
        if dotted.startswith("arco."):
            # The imports of a seam must not be used to reach it: arco.core.clock.time is time.
            for part in dotted.split(".")[1:]:
                if part in CLOCKS_AND_DICE:
                    self._report(node, dotted, CLOCKS_AND_DICE[part])
            return
        for module, advice in CLOCKS_AND_DICE.items():
            if _below(dotted, module):
                self._report(node, dotted, advice)
        for name, advice in NAMES.items():
            if _below(dotted, name):
                self._report(node, name, advice)
        module, _, name = dotted.partition(".")
        if module == "threading" and name and name.split(".")[0] not in HARMLESS_IN_THREADING:
            self._report(node, dotted, "take the tasks as an argument")

    def _dotted(self, node: ast.AST) -> str | None:
        """The full dotted name behind an expression, if it is one that an import brought."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        root = self._meaning.get(node.id, node.id if not parts else None)
        return None if root is None else ".".join([root, *reversed(parts)])

    def _report(self, node: ast.AST, name: str, advice: str) -> None:
        self.findings.append(Finding(self.path, getattr(node, "lineno", 0), name, advice))


def _below(dotted: str, name: str) -> bool:
    return dotted == name or dotted.startswith(name + ".")


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    findings = check(SOURCE)
    for finding in findings:
        print(f"{SOURCE.as_posix()}/{finding}", file=sys.stderr)
    if not findings:
        print(f"Seams kept in {sum(1 for _ in SOURCE.rglob('*.py'))} files.")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
