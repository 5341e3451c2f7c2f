"""The file system of a path, and whether Arco supports it (law 13, P4).

Network and FUSE file systems cache "not found" and may execute a link twice, so one process would not see
what another has created. They are refused at start.
"""

import os
import platform
import re
import subprocess
from pathlib import Path

from arco.core.errors import Unsupported

_REMOTE = frozenset(
    (
        *(
            "9p",
            "afs",
            "beegfs",
            "ceph",
            "cifs",
            "coda",
            "davfs",
            "fhgfs",
            "fuse",
            "fuseblk",
            "fusefs",
            "gfs",
        ),
        *(
            "gfs2",
            "glusterfs",
            "gpfs",
            "lustre",
            "macfuse",
            "ncpfs",
            "nfs",
            "nfs3",
            "nfs4",
            "ocfs2",
            "orangefs",
            "osxfuse",
        ),
        *(
            "panfs",
            "prl_fs",
            "pvfs2",
            "smb2",
            "smb3",
            "smbfs",
            "vboxsf",
            "virtiofs",
            "vmhgfs",
            "webdav",
        ),
    )
)

_UNKNOWN = "unknown"
_MOUNT_POINT = 4  # which field of a line of mountinfo is the mount point


def require_local(root: Path) -> str:
    """The file system's type, or `Unsupported` if Arco cannot keep its promises on it."""
    kind = filesystem_of(os.path.realpath(root))
    if kind == _UNKNOWN:
        raise Unsupported(
            "the file system of the directory is unknown, and a network file system would lose data: "
            "mount /proc"
        )
    if kind in _REMOTE or kind.startswith("fuse."):
        raise Unsupported(
            f"the directory is on a network or FUSE file system ({kind}). These cache 'not found', "
            "so a process may not see what another has written. Use a local disk, or give the "
            "object store itself as --store s3://, gs:// or az://"
        )
    return kind


def filesystem_of(path: str) -> str:
    """The type of the file system that holds the absolute `path`."""
    if platform.system() == "Darwin":
        return kind_from_mount(subprocess.check_output(["/sbin/mount"], text=True), path)
    try:
        table = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    except OSError as problem:
        raise Unsupported(
            "cannot determine the file system of the directory: local stores need Linux or macOS"
        ) from problem
    return kind_from_mountinfo(table, path)


def kind_from_mountinfo(table: str, path: str) -> str:
    """The type of the mount that holds `path`, from the text of /proc/self/mountinfo."""
    mounts = []
    for line in table.splitlines():
        before, _, after = line.partition(" - ")
        fields, words = before.split(), after.split()
        if len(fields) > _MOUNT_POINT and words:
            mounts.append((_unescape(fields[_MOUNT_POINT]), words[0]))
    return _longest(mounts, path)


def kind_from_mount(table: str, path: str) -> str:
    """The same from what `mount` prints on macOS; a mount that is not `local` counts as remote."""
    mounts = []
    for mount_point, options in re.findall(r"^.* on (/.*) \((.*)\)$", table, re.MULTILINE):
        words = options.split(", ")
        mounts.append((mount_point, words[0] if "local" in words else "fuse." + words[0]))
    return _longest(mounts, path)


def _longest(mounts: list[tuple[str, str]], path: str) -> str:
    """Of the mounts above `path`, the deepest; of two at one path, the later hides the earlier."""
    best, kind = "", _UNKNOWN
    for mount_point, mount_kind in mounts:
        inside = path == mount_point or path.startswith(mount_point.rstrip("/") + "/")
        if inside and len(mount_point) >= len(best):
            best, kind = mount_point, mount_kind
    return kind


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
