"""`arco token`: bearer tokens that this installation signs for itself."""

import math
from typing import Annotated

from cyclopts import App, Parameter

from arco.cli.settings import Flag
from arco.server.workspace_address import WorkspaceAddress

_EXAMPLES = """\
Examples:
  arco token mint user:ana                     valid for an hour
  export ARCO_TOKEN=$(arco token mint user:ana --days 30)
  arco token mint client:loader --group data-eng --json

The signing key is {root}/.arco/key, created on first use, or the existing file that
ARCO_SIGNING_KEY_FILE names. A person who can read it can act as any user."""

app = App(name="token", help="Create tokens for callers of the API.", help_epilogue=_EXAMPLES)


@app.command
def mint(
    principal: str,
    *,
    address: WorkspaceAddress | None = None,
    hours: Annotated[float, Parameter(metavar="N")] = 1,
    days: Annotated[float, Parameter(metavar="N")] = 0,
    group: Annotated[tuple[str, ...], Parameter(metavar="NAME", negative="")] = (),
    json: Flag = False,
) -> None:
    """Print a token that authenticates its bearer as PRINCIPAL, such as user:ana or client:loader.

    Parameters
    ----------
    principal
        The principal of the bearer.
    address
        The installation that the token is for.
    hours
        The lifetime in hours.
    days
        The lifetime in days; overrides --hours.
    group
        A group that the bearer belongs to; may be repeated.
    json
        Print one JSON document.
    """
    from arco.access.principal import Principal
    from arco.access.token import LocalTokens
    from arco.cli.output import print_document
    from arco.core.runtime import system_runtime

    address = address or WorkspaceAddress()
    runtime = system_runtime()
    tokens = LocalTokens(address.signing_key(runtime.rng), runtime)
    life_s = _seconds(days * 86_400 if days else hours * 3_600)
    bearer = Principal(principal, address.scope(), groups=tuple(group))
    token = tokens.mint(bearer, life_s=life_s)
    if json:
        print_document({"token": token, "principal": principal, "expires_in_s": life_s})
    else:
        print(token)


def _seconds(life: float) -> int:
    from arco.core.errors import Invalid

    if not math.isfinite(life):
        raise Invalid("a token lives for a number of hours or days")
    return round(life)
