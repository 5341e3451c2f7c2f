"""`arco init`: a small project that runs."""

import os
import re
import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from arco.cli.flags import AsJson
from arco.cli.flow.flags import command
from arco.core.errors import AlreadyExists, Invalid

_EXAMPLES = """\
Examples:
  arco init                                    in this folder
  arco init shop                               in a new folder
  arco init shop && cd shop && arco run --root .arco

Existing files are never overwritten."""

_TEMPLATE = Path(__file__).with_name("template")
_SUFFIX = ".tmpl"  # or tools would take the files for code of this package
_HIDDEN = {"gitignore": ".gitignore"}

app = command("init", "Create a small pipeline project.", _EXAMPLES)


@app.default
def init(
    folder: Annotated[str, Parameter(metavar="DIR", show_env_var=False)] = ".",
    /,
    *,
    json: AsJson = False,
) -> None:
    """Create a project of three assets over generated data, with checks and a unit test.

    Parameters
    ----------
    folder
        The folder, created if it is missing; by default this folder.
    """
    from arco.cli.output import print_document

    target = Path(folder).expanduser()
    files = _files(_name(target))
    _refuse_existing_files(target, files)
    for path, text in files.items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        with (target / path).open("x", encoding="utf-8") as made:
            made.write(text)
    if json:
        print_document({"folder": str(target.resolve()), "files": [str(path) for path in files]})
    else:
        _print_next_steps(folder, files)


def _files(name: str) -> dict[Path, str]:
    """What a new project is made of."""
    files: dict[Path, str] = {}
    for path in sorted(_TEMPLATE.rglob(f"*{_SUFFIX}")):
        relative = path.relative_to(_TEMPLATE).with_suffix("")
        relative = relative.with_name(_HIDDEN.get(relative.name, relative.name))
        text = path.read_text(encoding="utf-8")
        files[relative] = text.replace("{name}", name) if path.stem == "arco.toml" else text
    return files


def _name(target: Path) -> str:
    """The project's name: that of its folder, as far as it may stand in a file and on a line."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", target.resolve().name).strip("-")
    return name or "pipelines"


def _refuse_existing_files(target: Path, files: dict[Path, str]) -> None:
    if target.exists() and not target.is_dir():
        raise Invalid(f"{target} is a file: name a folder")
    existing = [str(path) for path in files if os.path.lexists(target / path)]
    existing += ["pipelines"] * (target / "pipelines").exists()
    if existing:
        problem = AlreadyExists(f"{target} has {existing[0]} already, and nothing is written over")
        problem.add_note("Name another folder, as in `arco init shop`.")
        raise problem


def _print_next_steps(folder: str, files: dict[Path, str]) -> None:
    go = "" if folder == "." else f"cd {shlex.quote(folder)}\n  "
    print(f"Made a project in {folder}: {', '.join(str(path) for path in files)}.\n")
    print(f"Next:\n  {go}arco validate                 what is declared, and whether it is sound")
    print("  arco run --root .arco         make it; with an Arco that runs here, leave out --root")
    print("  pytest                        the functions by themselves, without Arco")
    print("\nWithout the jar of Iceberg: arco run --root .arco --format parquet")
