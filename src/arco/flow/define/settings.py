"""Reads `arco.toml`: the name of the project, the paths of its definitions, and the defaults for them."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

from arco.flow.define.declarations import Declarations, DefinitionProblem, SourceLine, collect_into
from arco.flow.define.options import NO_RETRY, SETTINGS_FILE, Retry, Settings, retry_from_config

_LINE = re.compile(r"at line (\d+)")


def read_settings(folder: Path) -> tuple[Settings, list[DefinitionProblem]]:
    """The settings of the project in `folder`, and the problems in them."""
    plain = Settings(folder.name)
    path = folder / SETTINGS_FILE
    if not path.is_file():
        missing = not (folder / plain.paths[0]).exists()
        return plain, [
            DefinitionProblem(SETTINGS_FILE, 0, f"there is neither {SETTINGS_FILE} nor pipelines/")
        ] * missing
    text = path.read_text(encoding="utf-8")
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        match = _LINE.search(str(wrong))
        line = (
            int(match[1]) if match else len(text.splitlines())
        )  # no line: the text ends too early
        return plain, [DefinitionProblem(SETTINGS_FILE, line, f"not valid TOML: {wrong}")]
    return _SettingsReader(folder, text).read(values)


class _SettingsReader:
    """Reads the parsed file; values of a wrong type are reported and replaced by defaults."""

    def __init__(self, folder: Path, text: str) -> None:
        self._lines = text.splitlines()
        self._plain = Settings(folder.name)
        self._declarations = Declarations(folder, self._plain)

    def read(self, values: dict[str, object]) -> tuple[Settings, list[DefinitionProblem]]:
        defaults = self._table(values, "defaults", "options")
        pools = self._table(values, "pools", "names and slots")
        plain = self._plain
        settings = Settings(
            name=self._text(values, "name", plain.name),
            paths=self._texts(values, "paths", plain.paths),
            retries=self._retries(defaults),
            pool=self._text(defaults, "pool", plain.pool),
            format=self._text(defaults, "format", plain.format),
            tags=self._texts(defaults, "tags", plain.tags),
            owner=(self._text(defaults, "owner", "") or None) if "owner" in defaults else None,
            pools={name: self._slots(pools, name) for name in pools},
        )
        if (wrong := settings.unknown_pool(settings.pool)) is not None:
            self._report("pool", wrong)
        for path in settings.paths:
            if not (self._declarations.folder / path).exists():
                self._report("paths", f"there is no {path!r} in the project")
        for key in values:
            self._report(key, f"{key!r} is not a setting: name, paths, [defaults], [pools]")
        for key in defaults:
            message = f"{key!r} is not a setting of [defaults]: retries, pool, format, tags, owner"
            self._report(key, message)
        return settings, self._declarations.problems

    def _table(self, values: dict[str, object], key: str, what: str) -> dict[str, object]:
        value = values.pop(key, {})
        if isinstance(value, dict):
            return value
        self._report(key, f"[{key}] is a table of {what}")
        return {}

    def _slots(self, pools: dict[str, object], name: str) -> int:
        slots = pools[name]
        if isinstance(slots, int) and not isinstance(slots, bool) and slots > 0:
            return slots
        self._report(name, f"the pool {name!r} has a number of slots from 1 on, not {slots!r}")
        return 1

    def _text(self, values: dict[str, object], key: str, default: str) -> str:
        value = values.pop(key, default)
        if isinstance(value, str) and value:
            return value
        self._report(key, f"{key} is a text, not {value!r}")
        return default

    def _texts(
        self, values: dict[str, object], key: str, default: tuple[str, ...]
    ) -> tuple[str, ...]:
        value = values.pop(key, list(default))
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        self._report(key, f"{key} is a list of texts, not {value!r}")
        return default

    def _retries(self, defaults: dict[str, object]) -> Retry:
        values = defaults.pop("retries", 0)
        return self._recording("retries", lambda: retry_from_config(values)) or NO_RETRY

    def _recording(self, key: str, make: Callable[[], Retry]) -> Retry | None:
        self._declarations.declared_in = self._where(key)
        with collect_into(self._declarations):
            return make()

    def _report(self, key: str, message: str) -> None:
        where = self._where(key)
        self._declarations.problems.append(DefinitionProblem(where.file, where.line, message))

    def _where(self, key: str) -> SourceLine:
        for number, line in enumerate(self._lines, 1):
            if re.match(rf"\s*\[?{re.escape(key)}\b", line):
                return SourceLine(SETTINGS_FILE, number)
        return SourceLine(SETTINGS_FILE, 1)
