"""`arco validate`: all that is wrong with a project, at once."""

from typing import TYPE_CHECKING

from arco.cli.flags import AsJson
from arco.cli.flow.flags import FormatFlag, ProjectDir, command

if TYPE_CHECKING:
    from arco.flow.define import DefinitionProblem, Project

_EXAMPLES = """\
Examples:
  arco validate                                   the project in this folder
  arco validate --project examples/shop --json    another project, as JSON

SQL queries of assets are parsed as Spark SQL. It needs no server and no Spark,
and exits with 1 if it finds a problem. `arco check` is the same command."""

app = command("validate", "Load a project and report all its problems.", _EXAMPLES)


@app.default
def validate(
    *, project: ProjectDir = None, format_: FormatFlag = None, json: AsJson = False
) -> int:
    """Load a project and report all its problems, with file and line.

    Parameters
    ----------
    project
        The folder of the project.
    """
    from arco.cli.flow.project import find_folder, load_folder
    from arco.cli.output import print_document
    from arco.flow.define import find_problems
    from arco.flow.define.validation import sql_problems

    loaded = load_folder(find_folder(project), format=None if format_ is None else format_.value)
    errors = sorted({*find_problems(loaded), *sql_problems(loaded)})
    warnings = sorted(loaded.warnings)
    if json:
        print_document(
            {
                "ok": not errors,
                "project": loaded.name,
                "folder": str(loaded.folder),
                "assets": [each.name for each in loaded.assets],
                "sources": [each.name for each in loaded.sources],
                "tasks": [each.name for each in loaded.tasks],
                "checks": len(loaded.checks),
                "problems": _listed(errors),
                "may_be_more": bool(loaded.unread),
                "warnings": _listed(warnings),
            }
        )
        return int(bool(errors))
    _print(loaded, errors, warnings)
    return int(bool(errors))


def _listed(errors: "list[DefinitionProblem]") -> list[dict[str, object]]:
    return [{"file": each.file, "line": each.line, "message": each.message} for each in errors]


def _print(
    loaded: "Project", errors: "list[DefinitionProblem]", warnings: "list[DefinitionProblem]"
) -> None:
    from arco.cli.flow.text_format import count_of
    from arco.cli.rendering import one_line

    for each in errors:
        print(one_line(str(each)))
    for each in warnings:
        print(one_line(f"{each.file}:{each.line}: warning: {each.message}"))
    if errors:
        more = " There may be more once all files can be loaded." if loaded.unread else ""
        print(f"\n{count_of(len(errors), 'problem')} in the project {loaded.name}.{more}")
        return
    what = [
        count_of(len(each), name)
        for each, name in (
            (loaded.assets, "asset"),
            (loaded.sources, "source"),
            (loaded.tasks, "task"),
            (loaded.checks, "check"),
        )
        if each
    ]
    print(f"The project {loaded.name} is sound: {', '.join(what) or 'nothing is declared yet'}.")
