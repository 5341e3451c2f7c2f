"""What `arco.toml` says: the project's name, where its definitions are, and what holds for all of them."""

import difflib
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from arco.flow.define.collect import Collection, collecting
from arco.flow.define.problem import Problem
from arco.flow.define.retry import NO_RETRY, Retry, retry_of
from arco.flow.define.where import SourceLine

FILE = "arco.toml"
_LINE = re.compile(r"at line (\d+)")


@dataclass(frozen=True)
class Settings:
    """A project's own defaults; each definition may say otherwise."""

    name: str
    paths: tuple[str, ...] = ("pipelines",)
    retries: Retry = NO_RETRY
    pool: str = "default"
    format: str = "iceberg"
    tags: tuple[str, ...] = ()
    owner: str | None = None
    pools: dict[str, int] = field(default_factory=dict)  # how many tasks of each run at once

    def unknown_pool(self, name: str) -> str | None:
        """What is wrong with a pool of this name, if anything.

        Where no pool has slots, names only say which workers take a task; `default` never needs any.
        """
        if not self.pools or name in self.pools or name == Settings.pool:
            return None
        close = difflib.get_close_matches(name, sorted(self.pools), n=1)
        which = f"is {close[0]!r} meant?" if close else "give it slots there"
        return f"the pool {name!r} is not in [pools] of {FILE}: {which}"


def read_settings(folder: Path) -> tuple[Settings, list[Problem]]:
    """The settings of the project in `folder`, and what is wrong with them."""
    plain = Settings(folder.name)
    path = folder / FILE
    if not path.is_file():
        missing = not (folder / plain.paths[0]).exists()
        return plain, [Problem(FILE, 0, f"there is neither {FILE} nor pipelines/")] * missing
    text = path.read_text(encoding="utf-8")
    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        found = _LINE.search(str(wrong))
        line = int(found[1]) if found else len(text.splitlines())  # otherwise it ends too early
        return plain, [Problem(FILE, line, f"not valid TOML: {wrong}")]
    return _Reading(folder, text).read(said)


class _Reading:
    """One reading of the file; values of the wrong kind are noted and passed over."""

    def __init__(self, folder: Path, text: str) -> None:
        self._lines = text.splitlines()
        self._plain = Settings(folder.name)
        self._notes = Collection(folder, self._plain)

    def read(self, said: dict[str, object]) -> tuple[Settings, list[Problem]]:
        defaults = self._table(said, "defaults", "options")
        pools = self._table(said, "pools", "names and slots")
        plain = self._plain
        settings = Settings(
            name=self._text(said, "name", plain.name),
            paths=self._texts(said, "paths", plain.paths),
            retries=self._retries(defaults),
            pool=self._text(defaults, "pool", plain.pool),
            format=self._text(defaults, "format", plain.format),
            tags=self._texts(defaults, "tags", plain.tags),
            owner=(self._text(defaults, "owner", "") or None) if "owner" in defaults else None,
            pools={name: self._slots(pools, name) for name in pools},
        )
        if (wrong := settings.unknown_pool(settings.pool)) is not None:
            self._wrong("pool", wrong)
        for path in settings.paths:
            if not (self._notes.folder / path).exists():
                self._wrong("paths", f"there is no {path!r} in the project")
        for key in said:
            self._wrong(key, f"{key!r} is not a setting: name, paths, [defaults], [pools]")
        for key in defaults:
            message = f"{key!r} is not a setting of [defaults]: retries, pool, format, tags, owner"
            self._wrong(key, message)
        return settings, self._notes.problems

    def _table(self, said: dict[str, object], key: str, what: str) -> dict[str, object]:
        value = said.pop(key, {})
        if isinstance(value, dict):
            return value
        self._wrong(key, f"[{key}] is a table of {what}")
        return {}

    def _slots(self, pools: dict[str, object], name: str) -> int:
        slots = pools[name]
        if isinstance(slots, int) and not isinstance(slots, bool) and slots > 0:
            return slots
        self._wrong(name, f"the pool {name!r} has a number of slots from 1 on, not {slots!r}")
        return 1

    def _text(self, said: dict[str, object], key: str, otherwise: str) -> str:
        value = said.pop(key, otherwise)
        if isinstance(value, str) and value:
            return value
        self._wrong(key, f"{key} is a text, not {value!r}")
        return otherwise

    def _texts(
        self, said: dict[str, object], key: str, otherwise: tuple[str, ...]
    ) -> tuple[str, ...]:
        value = said.pop(key, list(otherwise))
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        self._wrong(key, f"{key} is a list of texts, not {value!r}")
        return otherwise

    def _retries(self, defaults: dict[str, object]) -> Retry:
        said = defaults.pop("retries", 0)
        return self._noting("retries", lambda: retries_said(said)) or NO_RETRY

    def _noting(self, key: str, make: Callable[[], Retry]) -> Retry | None:
        self._notes.declared_in = self._where(key)
        with collecting(self._notes):
            return make()

    def _wrong(self, key: str, message: str) -> None:
        where = self._where(key)
        self._notes.problems.append(Problem(where.file, where.line, message))

    def _where(self, key: str) -> SourceLine:
        for number, line in enumerate(self._lines, 1):
            if re.match(rf"\s*\[?{re.escape(key)}\b", line):
                return SourceLine(FILE, number)
        return SourceLine(FILE, 1)


def retries_said(said: object) -> Retry:
    """Retries out of TOML or YAML: a number, or the options of `Retry` by name."""
    if not isinstance(said, dict):
        return retry_of(said)
    known = {"times", "delay", "factor", "max", "jitter"}
    if "times" not in said or not set(said) <= known:
        return retry_of(said)
    return Retry(**said)
