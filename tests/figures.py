"""Figures: what a test has measured, printed at the end of the run on however many processes it ran."""

from collections.abc import Callable

import pytest

Figure = Callable[[str], None]

_NAME = "figure"


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Figure:
    """Say a figure, such as `matrix: 264 cells`; it counts only if the test passes."""
    return lambda text: record_property(_NAME, text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    passed = terminalreporter.stats.get("passed", [])
    texts = sorted(
        text for report in passed for name, text in report.user_properties if name == _NAME
    )
    if texts:
        terminalreporter.section("figures")
    for text in texts:
        terminalreporter.line(text)
