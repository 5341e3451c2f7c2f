"""`arco table files`: where the data of a plain Parquet table lie."""

from arco.cli.remote import Remote, path
from arco.cli.target import Target
from arco.cli.things import Thing
from arco.cli.verbs import print_raw
from arco.core import json
from arco.flow.publish.wire import TableVersionFiles


def print_files(remote: Remote, target: Target, *, as_json: bool) -> None:
    """Print the files of the version that is there now, one a line: what readers of it are given."""
    table = json.decode(remote.get(path(*target.url)), Thing)
    found = remote.get(path("tables", table.id, "files"))
    if as_json:
        print_raw(found)
        return
    now = json.decode(found, TableVersionFiles)
    for key in sorted(now.files):
        for each in now.files[key]:
            print(now.location + each.path)
