"""`arco verify`: whether everything that is published is what it was when it was published."""

import re
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.place import Place
from arco.cli.settings import Flag

if TYPE_CHECKING:
    from arco.compactor.report import Report

_ANCHOR = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")


def verify(
    *,
    place: Place | None = None,
    every: Annotated[Flag, Parameter(name="--all")] = False,
    expect: Annotated[str | None, Parameter(metavar="N:SHA256")] = None,
    json: Flag = False,
) -> int:
    """Check manifests, commits and files against their hashes, and name the first thing that is wrong.

    Parameters
    ----------
    place
        Where the metadata are.
    every
        Check the files of all versions that are kept, not those of the newest alone.
    expect
        A version and its hash, as an earlier run has printed them: the history must still contain it.
    json
        Print one JSON document.
    """
    from arco.cli.output import print_document
    from arco.core.tasks import run

    place, anchor = place or Place(), _anchor(expect)
    place.check_there()
    report = run(_verify(place, anchor, every=every, quiet=json))
    if report.head < 0 and report.ok:
        report = _found_nothing(report, place, quiet=json)
    if json:
        print_document(report)
    else:
        _tell(report)
    return 0 if report.ok else 1


async def _verify(
    place: Place, anchor: tuple[int, str] | None, *, every: bool, quiet: bool
) -> "Report":
    from arco.cli.progress import progress_bar
    from arco.compactor.verify import verify as check
    from arco.core.runtime import system_runtime
    from arco.fold.tier1 import DOMAIN
    from arco.storage.roles import Role
    from arco.storage.store import Store

    runtime = system_runtime()
    backend = place.backend(runtime)
    # Not proven by a write, as other stores are: whoever may read may verify.
    store = Store(backend, runtime, role=Role.JANITOR, scope=place.scope())
    with progress_bar("verifying", quiet=quiet) as progress:
        return await check(store, DOMAIN, everything=every, expect=anchor, progress=progress)


def _found_nothing(report: "Report", place: Place, *, quiet: bool) -> "Report":
    """Nothing to check is no success: more often than new, a workspace is misspelt."""
    import msgspec

    from arco.compactor.report import Problem, ProblemKind
    from arco.core.errors import NotFound

    scope = place.scope()
    said = f"nothing was published in tenant {scope.tenant}, workspace {scope.workspace}"
    if not quiet:
        missing = NotFound(f"{said} of {place.describe()}, so nothing was checked")
        missing.add_note("Check --root or --store, --tenant and --workspace.")
        raise missing
    path = f"manifests/{report.domain}/"
    problem = Problem(kind=ProblemKind.MANIFEST, path=path, explanation=said)
    return msgspec.structs.replace(report, ok=False, problem=problem)


def _anchor(text: str | None) -> tuple[int, str] | None:
    from arco.core.errors import Invalid

    if text is None:
        return None
    found = _ANCHOR.fullmatch(text)
    if found is None:
        raise Invalid(
            "--expect takes a version and its hash, such as 12:9f86d08..., as verify prints"
        )
    return int(found[1]), found[2]


def _tell(report: "Report") -> None:
    seen = report.checked
    print(
        f"Checked versions {report.floor} to {report.head}: {seen.manifests} manifests, "
        f"{seen.commits} commits, {seen.files} files with {seen.rows} rows, {seen.events} events, "
        f"{seen.links} numbers of leases, streams and keys."
    )
    if report.problem is None:
        print(f"All is as it was published. Anchor: {report.head}:{report.head_sha256}")
    else:
        print(f"WRONG: {report.problem.path}: {report.problem.explanation}.")
        print("Stop writing to this store, and restore that object from a backup.")
