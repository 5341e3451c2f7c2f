"""Settings: flags, their variables, and the store that they name.

Every flag has the variable `ARCO_<FLAG>`; one that is empty counts as not set. A flag on the command line
beats any variable, also that of the flag it excludes: with ARCO_STORE set, `--root x` means x. Two
variables that name a place are refused: which of them was meant is not guessed.
"""

import os
from pathlib import Path
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


def ignore_empty(_app: "App", _commands: tuple[str, ...], arguments: "ArgumentCollection") -> None:
    """Take a variable that is empty for one that is not set, as scripts mean it."""
    for argument in arguments:
        argument.tokens[:] = [
            token for token in argument.tokens if token.value or token.source != VARIABLES.source
        ]


def choose_place(_app: "App", _commands: tuple[str, ...], arguments: "ArgumentCollection") -> None:
    """Settle between `--root` and `--store` where variables speak too."""
    root, store = _argument(arguments, "--root"), _argument(arguments, "--store")
    if root is None or store is None:
        return
    bucket = os.environ.get(_BUCKET, "")
    if bucket and not any(token.source == "cli" for token in (*root.tokens, *store.tokens)):
        _take_bucket(bucket, store)
    for given, other in ((root, store), (store, root)):
        if any(token.source == "cli" for token in given.tokens):
            other.tokens[:] = [token for token in other.tokens if token.source == "cli"]
    if root.tokens and store.tokens:
        names = f"{root.tokens[0].keyword} and {store.tokens[0].keyword}"
        raise Invalid(f"{names} both name a place: give one of them")


def address_of(root: str | None, store: str | None) -> "Address":
    """The store that the flags name, or `Invalid` with what would be right."""
    from arco.storage.address import parse_address

    if "" in (root, store):
        raise Invalid("--root and --store need a value: leave them out for ./.arco")
    if root is not None and "://" in root:
        raise Invalid("--root takes a directory; a URL goes with --store")
    if store is not None and "/" not in store:
        raise Invalid(
            f"--store takes a URL or a path: for a bucket, say its kind, such as s3://{store}; for a "
            f"directory, say --root {store}"
        )
    return parse_address(_at_home(store or root or DEFAULT_ROOT))


def describe(address: "Address") -> str:
    """The address for people, with the server where that is not the cloud's own, on one line."""
    endpoint = address.options.get("endpoint")
    text = f"{address} (endpoint {endpoint})" if endpoint else str(address)
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def scope_of(tenant: str, workspace: str) -> Scope:
    """The workspace that the flags name, or `Invalid` with what would be right."""
    return Scope(tenant=tenant, workspace=workspace)


def _take_bucket(bucket: str, store: "Argument") -> None:
    if store.tokens:
        return  # ARCO_STORE is the closer name
    if "://" not in bucket:
        raise Invalid(f"{_BUCKET} has to say what kind of store it is, such as gs://{bucket}")
    store.append(Token(keyword=_BUCKET, value=bucket, source=VARIABLES.source))


def _at_home(place: str) -> str:
    """`~` as the shell would read it, where it was quoted or came from a variable."""
    if not place.startswith("~"):
        return place
    try:
        return str(Path(place).expanduser())
    except RuntimeError as problem:
        raise Invalid(f"there is no home directory for {place.partition('/')[0]}") from problem


def _argument(arguments: "ArgumentCollection", name: str) -> "Argument | None":
    return next((each for each in arguments if name in each.names), None)
