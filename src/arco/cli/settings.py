"""Settings: flags, their variables, and the store that they name.

Every flag has the variable `ARCO_<FLAG>`. A flag on the command line beats any variable, also that of the
flag it excludes: with ARCO_STORE set, `--root x` means x.
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

    from arco.storage.address import Address

DEFAULT_ROOT = "./.arco"

VARIABLES = Env("ARCO_", command=False)

_BUCKET = "ARCO_STORAGE_BUCKET"

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Name = Annotated[str, Parameter(metavar="NAME")]


def choose_place(_app: "App", _commands: tuple[str, ...], arguments: "ArgumentCollection") -> None:
    """Settle between `--root` and `--store` where variables speak too."""
    root, store = _argument(arguments, "--root"), _argument(arguments, "--store")
    if root is None or store is None:
        return
    bucket = os.environ.get(_BUCKET, "")
    if bucket and not store.tokens and not root.tokens:
        if "://" not in bucket:
            raise Invalid(f"{_BUCKET} has to say what kind of store it is, such as gs://{bucket}")
        store.append(Token(keyword=_BUCKET, value=bucket, source="env"))
    for given, other in ((root, store), (store, root)):
        if any(token.source == "cli" for token in given.tokens):
            other.tokens[:] = [token for token in other.tokens if token.source == "cli"]


def address_of(root: str | None, store: str | None) -> "Address":
    """The store that the flags name, or `Invalid` with what would be right."""
    from arco.storage.address import parse_address

    if root is not None and store is not None:
        raise Invalid("--root and --store both name a place: give one of them")
    if root is not None and "://" in root:
        raise Invalid("--root takes a directory; a URL goes with --store")
    return parse_address(store if store is not None else root or DEFAULT_ROOT)


def scope_of(tenant: str, workspace: str) -> Scope:
    """The workspace that the flags name, or `Invalid` with what would be right."""
    return Scope(tenant=tenant, workspace=workspace)


def _argument(arguments: "ArgumentCollection", name: str) -> "Argument | None":
    return next((each for each in arguments if name in each.names), None)
