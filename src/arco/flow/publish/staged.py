"""What an attempt may publish: files of its own, below its own folder, that are there (law 3)."""

import re

import msgspec

from arco.catalog.publication import WHOLE_TABLE, Attempt
from arco.core.errors import Invalid, NotFound
from arco.flow.publish.pointer import Mode
from arco.flow.publish.wire import FilesStaged, StagedFile
from arco.storage.key import check_key
from arco.storage.store import Store

MOST_FILES = (
    50_000  # of one publication: each is looked for, and a request takes half a minute at most
)

_AT_ONCE = 64
# So that the janitor can tell what was staged from whatever else lies in a table's folder.
_ATTEMPT = re.compile(r"[0-9a-f]{32}")
_MODES = (Mode.APPEND, Mode.REPLACE_PARTITION, Mode.REPLACE)


def is_attempt_id(text: str) -> bool:
    """Whether a folder can be that of an attempt."""
    return _ATTEMPT.fullmatch(text) is not None


def mode_of(staged: FilesStaged) -> Mode:
    """What becomes of the files that are there; `Invalid` for anything else."""
    mode = next((each for each in _MODES if each == staged.mode), None)
    if mode is None:
        raise Invalid(f"mode is one of {', '.join(_MODES)}, not {staged.mode[:40]!r}")
    return mode


def check_staged(staged: FilesStaged) -> Attempt:
    """The attempt, with all that it publishes, or `Invalid` if these are not its own files.

    Whoever replaces everything publishes the whole table, whichever partition it was dispatched for.
    """
    attempt, mode = staged.attempt, mode_of(staged)
    if not is_attempt_id(attempt.attempt_id):
        raise Invalid("the id of an attempt is 32 hexadecimal digits")
    if mode is Mode.REPLACE:
        attempt = msgspec.structs.replace(attempt, partitions=WHOLE_TABLE)
    strange = sorted(staged.files.keys() - set(attempt.partitions)) if attempt.partitions else []
    if strange:
        raise Invalid(f"the attempt does not hold partition {strange[0][:200]!r}")
    _check_files(staged, f"data/{attempt.attempt_id}/")
    return attempt


def _check_files(staged: FilesStaged, folder: str) -> None:
    files = _files(staged)
    if len(files) > MOST_FILES:
        raise Invalid(f"a publication has at most {MOST_FILES} files, not {len(files)}")
    if len({each.path for each in files}) < len(files):
        raise Invalid("a file is in one partition, once")
    for each in files:
        check_key(each.path)
        if not each.path.startswith(folder):
            raise Invalid(f"files of this attempt lie below {folder}, not at {each.path[:200]!r}")
        if each.rows < 0 or each.bytes < 0:
            raise Invalid(f"a file has 0 rows and bytes or more: {each.path[:200]!r}")


async def refuse_missing(store: Store, location: str, staged: FilesStaged) -> None:
    """`Invalid` unless every file is there, with the size that was told."""
    files = _files(staged)
    for start in range(0, len(files), _AT_ONCE):
        some = files[start : start + _AT_ONCE]
        await store.runtime.tasks.gather(*(_look(store, location, each) for each in some))


async def _look(store: Store, location: str, file: StagedFile) -> None:
    try:
        found = await store.head(location + file.path)
    except NotFound as missing:
        raise Invalid(f"there is no file {file.path[:200]!r} below the table") from missing
    if found.size_bytes != file.bytes:
        raise Invalid(
            f"{file.path[:200]!r} has {found.size_bytes} bytes, and not the {file.bytes} that were told"
        )


def _files(staged: FilesStaged) -> list[StagedFile]:
    return [each for some in staged.files.values() for each in some]
