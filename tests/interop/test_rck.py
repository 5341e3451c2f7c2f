"""The REST Compatibility Kit of Apache Iceberg: its own client, its own assertions."""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.figures import Figure
from tests.interop.java import jars, java
from tests.interop.rest import Rest, given_server, our_catalog

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1_200)]

VERSION = "1.11.0"
CLASSES = ("RESTCompatibilityKitCatalogTests", "RESTCompatibilityKitViewCatalogTests")
# The kit has no switch for ten of its tests: it never runs them against a server over the network.
PASSED, SKIPPED = 147, 10

_SWITCHES = {
    "rck.local": "false",
    "rck.requires-namespace-create": "true",
    "rck.supports-serverside-retry": "true",
    "rck.overrides-requested-location": "false",
    "rck.supports-names-with-dot": "true",
}
# Nine tests use these directories, whatever the temporary directory is.
_CONSTANT_DIRECTORIES = (Path("/tmp/ns"), Path("/tmp/newdb"))


def client() -> str:
    return f"RCK {VERSION}"


@dataclass(frozen=True)
class Case:
    """One test of the kit: its name, how it ended, and why."""

    name: str
    end: str
    message: str = ""


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Rest]:
    """A catalog with nothing in it, which takes tables where the kit wants to put them."""
    other = given_server(tmp_path)
    if other is not None:
        yield other
        return
    created_directories = [
        directory for directory in _CONSTANT_DIRECTORIES if not directory.exists()
    ]
    flags = [
        flag
        for directory in _CONSTANT_DIRECTORIES
        for flag in ("--allow-location", f"{directory.as_uri()}/")
    ]
    with our_catalog(tmp_path / "store", tmp_path / "java", *flags) as ours:
        yield ours
    for created in created_directories:
        shutil.rmtree(created, ignore_errors=True)


def test_the_whole_kit_passes(empty: Rest, tmp_path: Path, figure: Figure) -> None:
    cases = _run(empty, tmp_path)
    ends = Counter(case.end for case in cases)
    counts = f"passed {ends['passed']} failed {ends['failed']} skipped {ends['skipped']}"
    print(f"{client()}: {counts}")
    figure(f"{client()}: {counts}")

    failed = [f"{case.name}: {case.message}" for case in cases if case.end == "failed"]
    assert failed == [], "\n".join((counts, *failed))
    assert (ends["passed"], ends["skipped"]) == (PASSED, SKIPPED)


def _run(rest: Rest, tmp_path: Path) -> list[Case]:
    """Run both classes, and read the report that JUnit writes."""
    scratch, reports = rest.outside, tmp_path / "reports"
    scratch.mkdir(exist_ok=True)
    settings = {**_SWITCHES, "uri": rest.uri, "warehouse": rest.warehouse}
    settings |= {"java.io.tmpdir": str(scratch), "org.slf4j.simpleLogger.defaultLogLevel": "error"}
    command = [java(), "-Xmx1g", *(f"-D{key}={value}" for key, value in settings.items())]
    command += ["-cp", f"{jars('rck')}/*", "org.junit.platform.console.ConsoleLauncher", "execute"]
    command += ["--config", "rck.local=false", "--disable-banner", "--disable-ansi-colors"]
    command += ["--exclude-engine", "junit-vintage", "--exclude-engine", "junit-platform-suite"]
    command += ["--details", "none", "--reports-dir", str(reports)]
    command += [f"--select-class=org.apache.iceberg.rest.{name}" for name in CLASSES]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    report = reports / "TEST-junit-jupiter.xml"
    assert report.exists(), run.stdout + run.stderr
    return [_case(testcase) for testcase in ET.parse(report).getroot().iter("testcase")]


def _case(testcase: ET.Element) -> Case:
    name = f"{testcase.get('classname', '').rpartition('.')[2]}.{testcase.get('name')}"
    for tag, end in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        why = testcase.find(tag)
        if why is not None:
            return Case(name, end, _short(why.get("message") or why.text or ""))
    return Case(name, "passed")


def _short(message: str) -> str:
    """What went wrong, without the stack."""
    words = " ".join(message.split())
    return re.split(r" at (?:java|org|com)\.", words)[0][:600]
