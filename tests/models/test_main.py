"""The command line of the models: an unknown name is reported without a traceback."""

import pytest

from tests.models.__main__ import main


def test_an_unknown_model_is_refused_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["nope"]) == 2
    assert "no such model: nope (there are: chain." in capsys.readouterr().err


def test_help_names_the_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "chain.floor" in capsys.readouterr().out
