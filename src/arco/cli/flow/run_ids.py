"""Run ids as people give them: whole, by their beginning or end, or `last` for the newest run."""

from itertools import chain, islice
from typing import TYPE_CHECKING

from arco.core.errors import Invalid, NotFound

if TYPE_CHECKING:
    from arco.cli.remote import Remote

LAST = "last"

_ID_CHARS = 26
_MOST_RUNS = 10_000  # the newest, among which a part of an id is looked for
_SHOWN = 5


def find_run(remote: "Remote", given: str) -> str:
    """The id of the run that is meant; what fits no run is left for the server to refuse."""
    if len(given) == _ID_CHARS:
        return given
    runs = islice(_run_ids(remote), _MOST_RUNS)
    if given == LAST:
        newest = next(runs, None)
        if newest is None:
            raise NotFound("there is no last run: there are no runs yet; `arco run` starts one")
        return newest
    ids = list(runs)
    part = given.casefold()
    fit = [each for each in ids if each.casefold().startswith(part)]
    fit += [each for each in ids if each.casefold().endswith(part) and each not in fit]
    if given in ids or not (given and fit):
        return given
    if len(fit) > 1:
        more = f" and {len(fit) - _SHOWN:,} more" if len(fit) > _SHOWN else ""
        raise Invalid(
            f"the run id {given!r} is ambiguous: it fits {', '.join(fit[:_SHOWN])}{more}. Give more of it."
        )
    return fit[0]


def _run_ids(remote: "Remote") -> "chain[str]":
    from arco.core import json

    pages = remote.pages("/runs", {})
    return chain.from_iterable(
        (str(json.decode(bytes(each), dict)["run_id"]) for each in page) for page in pages
    )
