"""The content of a plain Parquet table: its files by partition, and how versions follow from each other."""

from collections.abc import Iterable

import msgspec

from arco.flow.publish.pointer import Files, Mode, ParquetPointer, Totals
from arco.flow.publish.wire import StagedFile

FORMAT = 1


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """All files of one version, and the attempt that made each partition, those that came out empty too."""

    format: int = FORMAT
    files: Files = msgspec.field(default_factory=dict)
    materials: dict[str, str] = msgspec.field(default_factory=dict)

    def paths(self) -> set[str]:
        """Where the files are, below the table's location."""
        return paths_of(self.files)


EMPTY = Content()


def after(content: Content, pointer: ParquetPointer) -> Content:
    """What a version makes of the content before it."""
    if pointer.mode is Mode.FENCE:
        return content
    changed, made = pointer.changed, dict.fromkeys(pointer.changed, pointer.publication.attempt_id)
    if pointer.mode is Mode.REPLACE:
        return Content(files=_filled(changed), materials=made)
    if pointer.mode is Mode.APPEND:
        changed = {key: content.files.get(key, ()) + added for key, added in changed.items()}
    return Content(
        files=_filled({**content.files, **changed}), materials={**content.materials, **made}
    )


def totals_after(before: Totals, content: Content, mode: Mode, changed: Files) -> Totals:
    """How much a table holds after a change, without counting what stays."""
    if mode is Mode.FENCE:
        return before
    gone: Iterable[tuple[StagedFile, ...]] = ()
    if mode is Mode.REPLACE:
        gone = content.files.values()
    elif mode is Mode.REPLACE_PARTITION:
        gone = (content.files.get(key, ()) for key in changed)
    left, come = _count(gone), _count(changed.values())
    return Totals(
        rows=before.rows - left.rows + come.rows,
        bytes=before.bytes - left.bytes + come.bytes,
        files=before.files - left.files + come.files,
    )


def paths_of(files: Files) -> set[str]:
    """Where files are, below the table's location."""
    return {each.path for some in files.values() for each in some}


def _filled(files: Files) -> Files:
    return {key: some for key, some in files.items() if some}


def _count(files: Iterable[tuple[StagedFile, ...]]) -> Totals:
    found = [each for some in files for each in some]
    return Totals(
        rows=sum(each.rows for each in found),
        bytes=sum(each.bytes for each in found),
        files=len(found),
    )
