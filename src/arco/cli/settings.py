"""Flags and their environment variables.

Every flag has the variable `ARCO_<FLAG>`; one that is empty counts as not set. A flag on the command line
beats any variable, also that of the flag it excludes: with ARCO_STORE set, `--root x` means x. Two
variables that name a store are refused: which of them was meant is not guessed.
"""

import os
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.config import Env
from cyclopts.token import Token

from arco.core.errors import Invalid
from arco.core.scope import Scope

if TYPE_CHECKING:
    from cyclopts import App
    from cyclopts.argument import Argument, ArgumentCollection

VARIABLES = Env("ARCO_", command=False)

_BUCKET = "ARCO_STORAGE_BUCKET"

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Name = Annotated[str, Parameter(metavar="NAME")]


def ignore_empty(_app: "App", _commands: tuple[str, ...], arguments: "ArgumentCollection") -> None:
    """Treat an empty variable as not set, as scripts expect."""
    for argument in arguments:
        argument.tokens[:] = [
            token for token in argument.tokens if token.value or token.source != VARIABLES.source
        ]


def choose_store(_app: "App", _commands: tuple[str, ...], arguments: "ArgumentCollection") -> None:
    """Decide between `--root` and `--store`, which may also be set by variables."""
    root, store = find_argument(arguments, "--root"), find_argument(arguments, "--store")
    if root is None or store is None:
        return
    bucket = os.environ.get(_BUCKET, "")
    if bucket and not any(token.source == "cli" for token in (*root.tokens, *store.tokens)):
        _take_bucket(bucket, store)
    for flag, other in ((root, store), (store, root)):
        if any(token.source == "cli" for token in flag.tokens):
            other.tokens[:] = [token for token in other.tokens if token.source == "cli"]
    if root.tokens and store.tokens:
        names = f"{root.tokens[0].keyword} and {store.tokens[0].keyword}"
        raise Invalid(f"{names} both name a store: give one of them")


def scope_of(tenant: str, workspace: str) -> Scope:
    """The workspace that the flags name, or `Invalid` with what would be right."""
    return Scope(tenant=tenant, workspace=workspace)


def _take_bucket(bucket: str, store: "Argument") -> None:
    if store.tokens:
        return  # ARCO_STORE is the closer name
    if "://" not in bucket:
        raise Invalid(f"{_BUCKET} needs the scheme of the store, such as gs://{bucket}")
    store.append(Token(keyword=_BUCKET, value=bucket, source=VARIABLES.source))


def find_argument(arguments: "ArgumentCollection", name: str) -> "Argument | None":
    """The argument of a command that a flag sets; None if the command has no such flag."""
    return next((each for each in arguments if name in each.names), None)
