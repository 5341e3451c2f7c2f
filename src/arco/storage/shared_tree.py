"""Directories that are not ours: engines make, move and delete them while we work.

Nothing is remembered from one call to the next, neither an open directory, which may have been moved away
since, nor that an entry is durable, which may have been made anew since. The root itself is made when
something is to be put into it, and not before. No symbolic link below it is followed.
"""

from pathlib import Path

from arco.storage.directory import Directory, Parts, Tree, sync_ancestors


class SharedTree:
    """All directories below one root that others use as well."""

    def __init__(self, root: Path, *, fsync: bool) -> None:
        self._root = root
        self._fsync = fsync
        if root.exists():
            self._walk()  # so that what is no directory is refused at once

    def find(self, parts: Parts) -> Directory | None:
        """The directory at `parts`, or None where there is none."""
        try:
            return self._walk().find(parts)
        except FileNotFoundError:
            return None

    def make(self, parts: Parts) -> Directory:
        """The directory at `parts`, made with its ancestors where missing."""
        if not self._root.exists():
            self._root.mkdir(parents=True, exist_ok=True)
            if self._fsync:
                sync_ancestors(self._root)
        return self._walk().make(parts)

    def sync(self, parts: Parts) -> None:
        """Make the entries of `parts` durable, and those that lead to it."""
        self._walk().sync(parts)

    def _walk(self) -> Tree:
        return Tree(str(self._root), fsync=self._fsync)
