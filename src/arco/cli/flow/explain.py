"""`arco explain`: why a partition is as it is, or why it would be made."""

from typing import Annotated

from cyclopts import Parameter

from arco.cli.flags import AsJson, Server, TableName
from arco.cli.flow.flags import FormatFlag, Own, ProjectDir, command

_EXAMPLES = """\
Examples:
  arco explain gold.spend_7d 2026-01-12    stale, missing or up to date: why
  arco explain silver.orders ds=2026-01-10
  arco explain silver.customers --json     one that is not partitioned"""

_SERVER, _PLACE = Server(), Own()

app = command("explain", "Say why a partition is up to date, stale or missing.", _EXAMPLES)


@app.default
def explain(
    table: TableName,
    partition: Annotated[str | None, Parameter(metavar="PARTITION", show_env_var=False)] = None,
    /,
    *,
    project: ProjectDir = None,
    format_: FormatFlag = None,
    server: Server = _SERVER,
    place: Own = _PLACE,
    json: AsJson = False,
) -> None:
    """Say how a partition stands: by which code and from which data it was made, and what has changed.

    Parameters
    ----------
    partition
        The partition, by its key or, where there is one dimension, by its value; all if none is named.
    server
        The Arco that knows what there is.
    place
        An Arco for the life of this command.
    """
    from dataclasses import replace

    from arco.cli.flow.code_changes import code_changes
    from arco.cli.flow.failures import last_failures
    from arco.cli.flow.project import load
    from arco.cli.flow.reach import Reach, reached
    from arco.cli.listing import one_line
    from arco.cli.output import print_document
    from arco.core.clock import utc
    from arco.core.runtime import system_runtime
    from arco.core.tasks import run
    from arco.flow.plan.explain import Explanation
    from arco.flow.plan.explain import explain as why

    loaded, runtime = load(project, format_), system_runtime()

    async def work() -> Explanation:
        async with reached(Reach(server, place), runtime, needs_coordinator=False) as arco:
            state = await arco.coordinator.state(loaded.tables, loaded.replaced)
            now = utc(runtime.clock.now_ms())
            found = why(loaded.project, table, partition, state, now)
            asked = replace(server, url=arco.url)

            def with_records() -> Explanation:
                with asked.open() as remote:
                    failures = last_failures(remote, found.failed)
                    changes: tuple[str, ...] = ()
                    if found.maker is not None and found.code_recorded is not None and is_changed:
                        changes = code_changes(
                            remote, loaded.project, found.maker, found.code_recorded
                        )
                    return replace(found, failures=failures, code_changes=changes)

            is_changed = found.code_recorded not in (None, found.code_now)
            # An Arco of our own answers on this very loop, so nobody may hold it up.
            needs_records = is_changed or bool(found.failed)
            return await runtime.tasks.in_thread(with_records) if needs_records else found

    found = run(work())
    if json:
        print_document(found)
        return
    for line in found.lines():
        print(one_line(line))
