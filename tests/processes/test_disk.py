"""A disk that is full or read-only, as an operator meets it: real mounts, where this user may mount."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.cli.command import arco, is_one_sentence
from tests.processes.deployment import TOKEN
from tests.processes.server import Server, eventually, free_port, running


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not mount")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "with a store"])
def test_a_read_only_root_is_refused_in_one_sentence(disk: Path, is_new: bool) -> None:
    root = disk / "store"
    if not is_new:
        (root / ".arco").mkdir(parents=True)
        made = arco("doctor", "--root", root)
        assert made.returncode == 0, made.stderr
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    port = str(free_port())
    for command in ("up", "compactor", "api"):
        run = arco(command, "--root", root, "--port", port, ARCO_SERVICE_TOKEN=TOKEN)
        assert (run.returncode, run.stdout) == (1, "")
        assert is_one_sentence(run.stderr), run.stderr
        assert "read-only" in run.stderr


async def test_a_full_disk_is_reported_and_not_ready_until_space_is_free(
    disk: Path,
) -> None:
    server = Server(
        ["up", "--root", str(disk / "store"), "--no-spark", "--admin-port", "0"],
        log=disk.parent / "up.log",
    )
    async with (
        running(server),
        httpx2.AsyncClient(base_url=server.url, trust_env=False, timeout=30) as http,
    ):
        assert (await http.get("/health")).json()["reasons"] == []
        with pytest.raises(OSError, match="No space"):
            _fill(disk / "filler")

        async def is_full() -> bool:
            reasons = (await http.get("/health")).json()["reasons"]
            return [each["code"] for each in reasons] == ["store_full"]

        await eventually(is_full, within_s=30)
        ready = await http.get("/health/ready")
        assert (ready.status_code, ready.json()["code"]) == (503, "store_full")
        assert (await http.get("/api/v1/catalogs")).status_code == 200
        (disk / "filler").unlink()

        async def is_well() -> bool:
            return (await http.get("/health/ready")).status_code == 200

        await eventually(is_well, within_s=30)


def _fill(file: Path) -> None:
    """Write to a file until the disk takes no more."""
    with file.open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(1024 * 1024))
