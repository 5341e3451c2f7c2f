"""What to do once `arco up` is ready: commands that work as they are printed."""

import os
import shlex
from collections.abc import Callable
from urllib.parse import urlsplit

from arco.cli.flags import DEFAULT_URL
from arco.server.listener import Auth, ListenSettings
from arco.server.workspace_address import KEY_FILE, WorkspaceAddress

# A server that listens on every address is local_url on this machine by these.
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - read, not listened on

# The runs of the sample, also before they are compacted.
_RUNS = "'SELECT execution_id, status, duration_ms FROM system.executions'"


def first_steps(
    place: WorkspaceAddress, listening: ListenSettings, *, sample: bool = False
) -> Callable[[str], str]:
    """The sentence with the URL of the server and what to do next."""

    def sentence(url: str) -> str:
        steps = ", ".join(_steps(place, listening, url, sample=sample))
        return (
            f"Arco is ready at {url}, on {place.describe()}. Next: {steps}, or open "
            f"{_local(listening, url)}/api/v1/docs; Ctrl-C stops it."
        )

    return sentence


def _steps(
    place: WorkspaceAddress, listening: ListenSettings, url: str, *, sample: bool
) -> list[str]:
    steps = []
    if listening.auth is Auth.LOCAL:
        steps.append(f"`export ARCO_TOKEN=$({_minting(place)})`")
    local_url = _local(listening, url)
    steps.append(
        _command("arco catalog list", "" if local_url == DEFAULT_URL else f"--url {local_url}")
    )
    if place.address().scheme != "memory":  # which only its own process can read
        steps.append(_command("arco sql 'SHOW TABLES'", place.flags()))
        if sample:
            steps.append(_command(f"arco sql {_RUNS} --fresh", place.flags()))
    return steps


def _minting(place: WorkspaceAddress) -> str:
    """The command that mints a token with the key that this process knows tokens by."""
    key = os.environ.get(KEY_FILE)
    before = f"{KEY_FILE}={shlex.quote(os.path.abspath(key))} " if key else ""  # noqa: PTH100 - keeps links
    return f"{before}arco token mint user:me {place.flags()}".rstrip()


def _command(words: str, flags: str) -> str:
    return f"`{words} {flags}".rstrip() + "`"


def _local(listening: ListenSettings, url: str) -> str:
    """The URL by which this machine reaches the server."""
    host = _EVERYWHERE.get(listening.host)
    return url if host is None else f"http://{host}:{urlsplit(url).port}"
