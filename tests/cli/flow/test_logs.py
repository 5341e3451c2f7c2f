"""`arco logs` against a server that answers by a script."""

import json

from tests.cli.command import arco
from tests.client.scripted_server import Reply, scripted

RUN = "01M7GVFS186HGNANJXDTGV0000"


def _piece(text: str, following: int, *, is_over: bool) -> Reply:
    piece = {"run_id": RUN, "task": "t", "attempt": 2, "attempt_id": "0" * 32}
    body = {**piece, "text": text, "next": following, "is_over": is_over}
    return Reply(200, json.dumps(body).encode())


def test_a_log_in_several_answers_is_read_to_its_end_and_of_one_attempt() -> None:
    replies = _piece("one\n", 16, is_over=False), _piece("two\n", 20, is_over=True)
    with scripted(*replies) as script:
        ran = arco("logs", RUN, "t", "--url", script.url)
    assert (ran.stdout, ran.stderr) == ("one\ntwo\n", "")
    asked = [each.path.partition("?")[2] for each in script.asked if "/logs" in each.path]
    assert asked == ["since=0", "attempt=2&since=16"]
