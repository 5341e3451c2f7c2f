import errno
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NoReturn

import pytest

from arco import __version__
from arco.core.errors import Denied
from arco.core.runtime import Runtime
from arco.server.doctor import check_file_system, check_java, check_store
from arco.server.workspace_address import WorkspaceAddress
from tests.cli.command import ARCO, arco, is_one_sentence
from tests.core.test_java import fake_java
from tests.faults.running import running_server
from tests.stores import KINDS, store_url

PROBE = "tenant=default/workspace=default/_probe"
HOUR_S = 3_600


def _report(output: str) -> dict[str, Any]:
    report = json.loads(output)
    assert isinstance(report, dict)
    return report


def _check(report: dict[str, Any], name: str) -> dict[str, Any]:
    [check] = [each for each in report["checks"] if each["name"] == name]
    assert isinstance(check, dict)
    return check


def _store(root: Path) -> Path:
    """A directory that was made for a store."""
    root.mkdir(parents=True, exist_ok=True)
    return root


def test_a_directory_that_does_not_exist_fails_and_is_not_created(tmp_path: Path) -> None:
    run = arco("doctor", "--root", tmp_path / "typo", "--json")

    opens = _check(_report(run.stdout), "opens")
    root = tmp_path / "typo"
    assert run.returncode == 1
    assert (opens["status"], opens["figure"]) == (
        "failed",
        f"there is no Arco store at file://{root}",
    )
    assert f"`arco up --root {root}`" in opens["next_step"]
    assert list(tmp_path.iterdir()) == []


def test_a_good_directory_passes_and_every_check_has_a_figure(tmp_path: Path) -> None:
    run = arco("doctor", "--root", _store(tmp_path / "store"))

    assert run.returncode == 0, run.stdout
    assert run.stderr == ""
    for line in ("python", "file system", "put-if-absent", "1 winner of 16", "p50", "All is well"):
        assert line in run.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_store_passes(kind: str, request: pytest.FixtureRequest) -> None:
    url = store_url(kind, request)
    if kind == "local":
        _store(Path(url))

    run = arco("doctor", "--store", url, "--json", "--no-fsync")

    report = _report(run.stdout)
    assert report["ok"], report
    assert run.returncode == 0
    assert {each["status"] for each in report["checks"]} <= {"ok", "note"}
    p50_ms = _check(report, "durable create")["measured"]["p50_ms"]
    assert p50_ms > 0
    assert p50_ms == round(p50_ms, 3)
    assert _check(report, "missing get")["measured"]["p50_us"] > 0
    assert _check(report, "race")["measured"] == {"racers": 16, "winners": 1}
    assert _check(report, "requests")["measured"]["requests"] > 60


def test_only_the_object_that_proves_put_if_absent_remains(tmp_path: Path) -> None:
    assert arco("doctor", "--root", _store(tmp_path)).returncode == 0

    objects = [path for path in tmp_path.rglob("*") if path.is_file()]

    assert objects == [tmp_path / PROBE / "put-if-absent.json"]


def test_probes_of_an_interrupted_run_are_deleted_an_hour_later(tmp_path: Path) -> None:
    assert arco("doctor", "--root", _store(tmp_path)).returncode == 0
    old, young = tmp_path / PROBE / "race-old.json", tmp_path / PROBE / "race-young.json"
    old.write_text("{}")
    young.write_text("{}")
    os.utime(old, (0, young.stat().st_mtime - 2 * HOUR_S))
    scratch = tmp_path / ".arco" / "scratch" / f"{os.uname().nodename}~999999999~1~1-1"
    scratch.write_text("half an object")

    report = _report(arco("doctor", "--root", tmp_path, "--json").stdout)

    assert not old.exists()
    assert young.exists()
    assert not scratch.exists()
    swept = _check(report, "clean-up")["measured"]
    assert (swept["old_probes"], swept["scratch_files"]) == (1, 1)


def test_it_checks_the_given_tenant_and_workspace(tmp_path: Path) -> None:
    run = arco("doctor", "--root", _store(tmp_path), "--tenant", "acme", "--workspace", "main")

    assert run.returncode == 0
    assert (tmp_path / "tenant=acme/workspace=main/_probe/put-if-absent.json").exists()


def test_without_flags_it_checks_the_default_directory(tmp_path: Path) -> None:
    _store(tmp_path / ".arco")
    run = arco("doctor", cwd=tmp_path)

    assert run.returncode == 0
    assert (tmp_path / ".arco" / PROBE).is_dir()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--store", "ftp://bucket"),
        ("--store", "s3://"),
        ("--store", "s3://bucket?secret_key=x"),
        ("--store", "s3://user:pw@bucket"),
        ("--store", "s3://[bad"),
        ("--store", ""),
        ("--root", ""),
        ("--store", "lake"),
        ("--root", "~nobody-of-this-name/x"),
        ("--root", "s3://bucket"),
        ("--root", "a", "--store", "memory://"),
        ("--tenant", "../up", "--store", "memory://"),
        ("--workspace", "A B", "--store", "memory://"),
    ],
)
def test_invalid_arguments_are_misuse(arguments: tuple[str, ...], tmp_path: Path) -> None:
    run = arco("doctor", *arguments, cwd=tmp_path)

    assert run.returncode == 2
    assert is_one_sentence(run.stderr), run.stderr
    assert run.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_quoted_tilde_is_the_home_directory(tmp_path: Path) -> None:
    run = arco("doctor", "--root", "~/store", "--json", cwd=tmp_path, HOME=str(tmp_path / "home"))

    assert _report(run.stdout)["subject"]["store"] == f"file://{tmp_path}/home/store"


def test_a_directory_with_an_odd_name_does_not_break_the_heading(tmp_path: Path) -> None:
    run = arco("doctor", "--root", tmp_path / "a\nb", "--no-fsync")

    assert run.stdout.split("\n")[0].startswith(
        f"arco {__version__}, store file://{tmp_path}/a\\nb,"
    )


def test_a_secret_in_a_url_is_not_repeated() -> None:
    run = arco("doctor", "--store", "s3://bucket?secret_key=hunter2")

    assert run.returncode == 2
    assert "hunter2" not in run.stdout + run.stderr


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("file", "file' is not a directory"),
        ("link/store", "link' is a link to nowhere"),
        ("x" * 300, "cannot be used: file name too long"),
    ],
)
def test_a_path_that_cannot_be_a_directory_is_reported(
    path: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")

    run = arco("doctor", "--root", tmp_path / path)

    assert run.returncode == 1
    assert "cannot be used" in run.stdout
    assert reason in run.stdout
    assert "Name another store" in run.stdout
    assert is_one_sentence(run.stderr)


def test_a_parent_without_permission_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, **_: bool) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", refuse)

    with pytest.raises(Denied, match="cannot be used: permission denied"):
        check_file_system(tmp_path / "private" / "store")


@pytest.mark.parametrize("kind", ["tmpfs", "ramfs"])
def test_a_file_system_in_memory_is_noted(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arco.storage.mounts.filesystem_of", lambda path: kind)

    finding = check_file_system(tmp_path)

    assert (finding.status, finding.figure) == ("note", kind)
    assert "gone after a restart" in finding.next_step


def test_a_store_in_memory_is_noted() -> None:
    report = _report(arco("doctor", "--store", "memory://", "--json").stdout)

    assert _check(report, "memory")["status"] == "note"


def test_an_endpoint_that_does_not_answer_is_reported_soon() -> None:
    run = arco("doctor", "--store", "s3://bucket?endpoint=http://127.0.0.1:1")

    assert run.returncode == 1
    assert "did not answer" in run.stdout
    assert "Check the address" in run.stdout
    assert "s3://bucket (endpoint http://127.0.0.1:1)" in run.stdout.split("\n")[0]
    assert "at s3://bucket (endpoint http://127.0.0.1:1)" in run.stdout.split("answers")[1]
    assert is_one_sentence(run.stderr)


def test_a_missing_client_setting_is_reported_without_the_library_s_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)

    run = arco("doctor", "--store", "az://container")

    assert run.returncode == 1
    assert "could not be set up" in run.stdout
    assert "?account=" in run.stdout
    assert "Debug source" not in run.stdout + run.stderr


def test_a_missing_bucket_is_reported(moto_url: str) -> None:
    run = arco("doctor", "--store", f"s3://nowhere?endpoint={moto_url}")

    assert run.returncode == 1
    assert "the bucket or container was not found: s3://nowhere" in run.stdout
    assert "Create the bucket" in run.stdout


class _Refuses(BaseHTTPRequestHandler):
    def _refuse(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD = do_PUT = do_DELETE = _refuse  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def refusing_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Refuses)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_identity_without_rights_gets_advice_on_policies(refusing_url: str) -> None:
    run = arco("doctor", "--store", f"s3://bucket?endpoint={refusing_url}")

    assert run.returncode == 1
    assert "does not allow this" in run.stdout
    assert "arco iam render" in run.stdout


def test_a_store_that_ignores_put_if_absent_fails_with_the_reason() -> None:
    with running_server(ignore_conditions=True) as server:
        run = arco("doctor", "--store", f"s3://arco?endpoint={server.s3_endpoint}", "--json")

    report = _report(run.stdout)
    assert run.returncode == 1
    assert not report["ok"]
    assert _check(report, "put-if-absent")["status"] == "failed"
    assert "If-None-Match" in _check(report, "put-if-absent")["figure"]
    assert "race" not in [each["name"] for each in report["checks"]]


def test_a_process_that_used_a_cloud_ends_with_its_own_code_every_time(refusing_url: str) -> None:
    runs = [arco("doctor", "--store", f"s3://bucket?endpoint={refusing_url}") for _ in range(8)]

    assert {run.returncode for run in runs} == {1}


async def test_a_network_file_system_fails_with_the_reason(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arco.storage.mounts.filesystem_of", lambda path: "nfs4")
    address = WorkspaceAddress(root=str(tmp_path / "store"))

    *_, last = [each async for each in check_store(address, runtime)]

    assert (last.name, last.status) == ("opens", "failed")
    assert "network" in last.figure
    assert not (tmp_path / "store").exists()


def test_a_terminal_without_unicode_gets_words_instead_of_ticks(tmp_path: Path) -> None:
    run = subprocess.run(
        [ARCO, "doctor", "--root", _store(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONIOENCODING": "ascii:replace"},
    )

    assert run.returncode == 0
    assert "  ok python" in run.stdout


@pytest.mark.parametrize(
    ("version", "status", "figure"),
    [
        ("21.0.2", "ok", "Java 21"),
        ("11.0.1", "note", "Java 11"),
        (None, "note", "JAVA_HOME has no"),
    ],
)
def test_the_java_of_java_home_is_checked_as_spark_would_start_it(
    version: str | None,
    status: str,
    figure: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if version is not None:
        fake_java(tmp_path, f'openjdk version "{version}"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    finding = check_java()

    assert finding.status == status
    assert figure in finding.figure
