from pathlib import Path

import pytest

from arco.core.errors import Unsupported
from arco.core.runtime import Runtime
from arco.storage import mounts
from arco.storage.local import LocalBackend
from arco.storage.mounts import kind_from_mount, kind_from_mountinfo

MOUNTINFO = r"""
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
22 21 0:20 / /proc rw,nosuid - proc proc rw
40 21 0:41 / /data rw,relatime shared:2 - xfs /dev/vdb rw
41 40 0:42 /export /data/shared rw - nfs4 10.0.0.1:/export rw,vers=4.2
42 21 0:43 / /mnt/with\040space rw - fuse.gcsfuse bucket rw
43 21 0:44 / /mnt/twice rw - nfs 10.0.0.1:/a rw
44 21 0:45 / /mnt/twice rw - ext4 /dev/vdc rw
45 21 0:46 / /tmp rw shared:5 master:1 propagate_from:2 - tmpfs tmpfs rw
""".strip()

MACOS = """
/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
devfs on /dev (devfs, local, nobrowse)
/dev/disk3s5 on /System/Volumes/Data (apfs, local, journaled, nobrowse)
//me@server/share on /Volumes/share (smbfs, nodev, nosuid, mounted by me)
server:/export on /Volumes/with space (odd) (nfs, nodev, nosuid)
/dev/disk5 on /Volumes/macfuse (macfuse, local, synchronous)
""".strip()

REMOTE = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "9p",
    "ceph",
    "fuse",
    "fuse.sshfs",
    "fuse.s3fs",
    "lustre",
    "virtiofs",
]
LOCAL = ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "apfs", "f2fs"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/home/me", "ext4"),
        ("/data", "xfs"),
        ("/data/arco", "xfs"),
        ("/database", "ext4"),  # a name that begins like a mount is not below it
        ("/data/shared", "nfs4"),
        ("/data/shared/arco", "nfs4"),
        ("/data/shared2", "xfs"),
        ("/mnt/with space/arco", "fuse.gcsfuse"),
        ("/mnt/twice/x", "ext4"),  # the later mount hides the earlier
        ("/tmp/x", "tmpfs"),
    ],
)
def test_the_deepest_mount_above_a_path_names_its_file_system(path: str, kind: str) -> None:
    assert kind_from_mountinfo(MOUNTINFO, path) == kind


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/Users/me", "apfs"),
        ("/Volumes/share/x", "fuse.smbfs"),
        ("/Volumes/with space (odd)/x", "fuse.nfs"),
        ("/Volumes/sharex", "apfs"),
    ],
)
def test_on_macos_a_mount_that_is_not_local_is_remote(path: str, kind: str) -> None:
    assert kind_from_mount(MACOS, path) == kind


def test_a_fuse_mount_on_macos_is_refused_though_it_calls_itself_local(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = kind_from_mount(MACOS, "/Volumes/macfuse/x")
    monkeypatch.setattr(mounts, "filesystem_of", lambda path: kind)
    with pytest.raises(Unsupported):
        mounts.require_local(Path("/Volumes/macfuse/x"))


@pytest.mark.parametrize("kind", REMOTE)
def test_a_network_or_fuse_file_system_is_refused_with_a_sentence(
    tmp_path: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    real = tmp_path / "remote"
    real.mkdir()
    table = f"{MOUNTINFO}\n50 21 0:50 / {real} rw - {kind} somewhere rw"
    monkeypatch.setattr(mounts, "filesystem_of", lambda path: kind_from_mountinfo(table, path))
    with pytest.raises(Unsupported) as refused:
        LocalBackend(real / "store", runtime)
    message = str(refused.value)
    assert f"({kind})" in message
    assert "network or FUSE file system" in message
    assert "s3://" in message
    assert str(tmp_path) not in message
    # A link to such a place is no way around it.
    (tmp_path / "alias").symlink_to(real)
    with pytest.raises(Unsupported):
        LocalBackend(tmp_path / "alias/store", runtime)


@pytest.mark.parametrize("kind", LOCAL)
def test_a_local_file_system_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(mounts, "filesystem_of", lambda path: kind)
    assert mounts.require_local(tmp_path) == kind


def test_this_machines_own_table_is_read(tmp_path: Path) -> None:
    assert mounts.require_local(tmp_path) in {*LOCAL, "ext2", "ext3", "bcachefs"}


@pytest.mark.parametrize("table", ["", "garbage"])
def test_an_unrecognised_file_system_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda path, **_: table)
    with pytest.raises(Unsupported):
        mounts.require_local(tmp_path)
