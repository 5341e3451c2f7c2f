"""Tasks that run side by side import modules of the project inside of their functions."""

import sys
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Event, Thread
from types import ModuleType

import pytest

from arco.flow.define.project import Project
from tests.flow.define.projects import load

_LONG_S = 20.0  # longer than any wait that ends
_MOMENT_S = 0.2  # what another thread has time for, if it is not held up

DATACLASS = """
from dataclasses import dataclass
@dataclass
class Price:
    amount: "int" = 7
"""


class Meeting(ModuleType):
    """A module outside of the project, by which its modules and the test wait for each other."""

    def __init__(self) -> None:
        super().__init__("meeting")
        self.is_in = Event()
        self.is_over = Event()
        self.both = Barrier(2)
        self.long, self.moment = _LONG_S, _MOMENT_S


@pytest.fixture
def meeting(monkeypatch: pytest.MonkeyPatch) -> Meeting:
    made = Meeting()
    monkeypatch.setitem(sys.modules, "meeting", made)
    return made


class Call:
    """A task of a project that runs in a thread of its own."""

    def __init__(self, project: Project, name: str, then: Callable[[], None] | None = None) -> None:
        self._function = next(each.function for each in project.tasks if each.name == name)
        self._then = then
        self._result: object = None
        self._thread = Thread(target=self._call, daemon=True)
        self._thread.start()

    def _call(self) -> None:
        try:
            self._result = self._function()
        except BaseException as failure:
            self._result = failure
        if self._then is not None:
            self._then()

    def result(self) -> object:
        """What the task returned or raised."""
        self._thread.join(_LONG_S)
        assert not self._thread.is_alive(), "it waits for ever"
        return self._result


def tasks(**modules: str) -> dict[str, str]:
    """A project of one task for each module, which returns its `ANSWER` and imports it for that."""
    code = "".join(
        f"@task()\ndef {name}():\n    from shared.{name} import ANSWER\n    return ANSWER\n"
        for name in modules
    )
    return {
        "pipelines/a.py": code + "@task()\ndef again():\n    return slow()\n",
        **{f"shared/{name}.py": text for name, text in modules.items()},
    }


def test_a_module_that_another_thread_executes_is_whole_before_it_is_used(
    tmp_path: Path, meeting: Meeting
) -> None:
    slow = "import meeting\nmeeting.is_in.set()\nmeeting.is_over.wait(meeting.moment)\nANSWER = [1]"
    project = load(tmp_path, tasks(slow=slow))
    first = Call(project, "slow")
    assert meeting.is_in.wait(_LONG_S)
    second = Call(project, "again", meeting.is_over.set)
    assert first.result() == [1]
    assert second.result() is first.result()


def test_modules_that_import_each_other_hold_no_two_threads_up(
    tmp_path: Path, meeting: Meeting
) -> None:
    wait = "import meeting\nmeeting.both.wait(meeting.long)\n"
    one, other = f"{wait}import shared.other\nANSWER = 1", f"{wait}import shared.one\nANSWER = 2"
    project = load(tmp_path, tasks(one=one, other=other))
    calls = Call(project, "one"), Call(project, "other")
    assert [each.result() for each in calls] == [1, 2]


def test_a_module_is_shown_for_as_long_as_it_is_executed_an_attempt_that_leaves_before(
    tmp_path: Path, meeting: Meeting
) -> None:
    quick = "import meeting\nmeeting.both.wait(meeting.long)\nANSWER = 1"
    slow = (
        "import meeting\nmeeting.both.wait(meeting.long)\nmeeting.is_over.wait(meeting.long)\n"
        f"{DATACLASS}\nANSWER = Price().amount"
    )
    project = load(tmp_path, tasks(quick=quick, slow=slow))
    first, second = Call(project, "quick", meeting.is_over.set), Call(project, "slow")
    assert (first.result(), second.result()) == (1, 7)
    assert [name for name in sys.modules if name.startswith("shared")] == []


def test_a_module_may_wait_for_a_thread_that_imports_another(tmp_path: Path) -> None:
    pool = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def look():\n    from shared.quick import ANSWER\n    return ANSWER\n"
        "with ThreadPoolExecutor() as pool:\n    ANSWER = pool.submit(look).result(20)\n"
    )
    project = load(tmp_path, tasks(pool=pool, quick="ANSWER = 1"))
    assert Call(project, "pool").result() == 1


def test_an_error_of_a_module_is_that_of_all_who_import_it(
    tmp_path: Path, meeting: Meeting
) -> None:
    slow = (
        "import meeting\nmeeting.is_in.set()\nmeeting.is_over.wait(meeting.moment)\n"
        "raise RuntimeError('no price today')"
    )
    project = load(tmp_path, tasks(slow=slow))
    first = Call(project, "slow")
    assert meeting.is_in.wait(_LONG_S)
    second = Call(project, "again", meeting.is_over.set)
    assert [str(each.result()) for each in (first, second)] == ["no price today"] * 2
