"""Our own signed URLs: path and expiry are bound, and nothing else opens an object."""

import os
import random
import stat
import string
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core.errors import Denied, Invalid
from arco.storage.signing import KEY_BYTES, ROUTE, UrlSigner, installation_key

BASE = "http://127.0.0.1:8181"
KEY = "tenant=a/workspace=b/state/executions/x.parquet"
EXPIRES_S = 1_800_000_000
BEFORE_MS = EXPIRES_S * 1_000 - 1

SIGNER = UrlSigner(b"k" * KEY_BYTES, BASE)
URL = SIGNER.sign(KEY, EXPIRES_S)


@pytest.mark.parametrize("base", [BASE, f"{BASE}/", "https://h/arco", "https://h/files/x", ""])
@pytest.mark.parametrize(
    "key", [KEY, "a b/ü", "a%2e%2e/b", "x?y&z#", "files/files/x", "a+b", "日本"]
)
def test_a_url_opens_the_key_it_was_signed_for(base: str, key: str) -> None:
    signer = UrlSigner(b"k" * KEY_BYTES, base)
    url = signer.sign(key, EXPIRES_S)
    assert url.isascii()
    assert signer.verify(url, BEFORE_MS) == key


def test_path_and_query_alone_will_do() -> None:
    # As a server sees them, for GET and HEAD alike: the method is not bound.
    assert SIGNER.verify(URL.removeprefix(BASE), BEFORE_MS) == KEY


def test_a_url_is_refused_from_its_moment_on() -> None:
    assert SIGNER.verify(URL, BEFORE_MS) == KEY
    for now_ms in (BEFORE_MS + 1, BEFORE_MS + 10**12):
        with pytest.raises(Denied):
            SIGNER.verify(URL, now_ms)


def test_a_url_of_another_installation_is_refused() -> None:
    with pytest.raises(Denied):
        UrlSigner(b"K" * KEY_BYTES, BASE).verify(URL, BEFORE_MS)


def test_every_changed_character_of_path_and_query_is_refused() -> None:
    tried = 0
    for at in range(len(BASE), len(URL)):
        for other in string.printable + "é\0":
            if other == URL[at]:
                continue
            tried += 1
            with pytest.raises(Denied):
                SIGNER.verify(URL[:at] + other + URL[at + 1 :], BEFORE_MS)
    assert tried > 10_000


@given(st.data())
def test_a_mangled_url_opens_nothing_else_and_not_for_longer(data: st.DataObject) -> None:
    mangled = list(URL)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(mangled)))
        until = at + data.draw(st.integers(0, 3))
        mangled[at:until] = data.draw(st.text(max_size=3))
    url = "".join(mangled)
    with pytest.raises(Denied):
        SIGNER.verify(url, EXPIRES_S * 1_000)
    with suppress(Denied):
        assert SIGNER.verify(url, BEFORE_MS) == KEY


@given(st.text())
def test_no_text_makes_the_check_raise_anything_but_denied(url: str) -> None:
    for text in (url, BASE + ROUTE + url, f"{ROUTE}{url}?expires=9&signature={url}"):
        with pytest.raises(Denied):
            SIGNER.verify(text, 0)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "expires=1",
        "signature=a",
        f"{URL.partition('?')[2]}&expires=9999999999",
        f"expires=9999999999&{URL.partition('?')[2]}",
        URL.partition("?")[2].replace("expires=", "expires=-"),
        URL.partition("?")[2].replace("expires=1", "expires=" + "9" * 400),
        "&".join([URL.partition("?")[2], *["x=1"] * 100]),
    ],
)
def test_a_query_with_more_or_less_than_it_had_is_refused(query: str) -> None:
    with pytest.raises(Denied) as refused:
        SIGNER.verify(f"{BASE}{ROUTE}{KEY}?{query}", BEFORE_MS)
    assert URL.rpartition("=")[2] not in str(refused.value)


@pytest.mark.parametrize("key", ["../x", "a//b", "", "a\0", "\ud800"])
def test_what_is_no_key_is_not_signed(key: str) -> None:
    with pytest.raises(Invalid):
        SIGNER.sign(key, EXPIRES_S)


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(Invalid):
        UrlSigner(b"k" * (KEY_BYTES - 1), BASE)


def test_the_installations_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "root/.arco/key"
    before = os.umask(0)
    try:
        key = installation_key(path, random.Random(1))
    finally:
        os.umask(before)
    assert len(key) == KEY_BYTES
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert installation_key(path, random.Random(2)) == key == path.read_bytes()
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.process
def test_of_processes_that_start_together_one_key_stays(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from arco.core.runtime import system_rng\n"
        "from arco.storage.signing import installation_key\n"
        "sys.stdin.readline()\n"
        "print(installation_key(Path(sys.argv[1]), system_rng()).hex())\n"
    )
    path = tmp_path / ".arco/key"
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    keys = {racer.communicate("go\n", timeout=60)[0].strip() for racer in racers}
    assert keys == {path.read_bytes().hex()}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_the_loser_of_that_race_takes_the_winners_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key"
    link = os.link

    def lose(source: str, target: Path) -> None:
        path.write_bytes(b"w" * KEY_BYTES)
        path.chmod(0o600)
        link(source, target)

    monkeypatch.setattr(os, "link", lose)
    assert installation_key(path, random.Random(1)) == b"w" * KEY_BYTES
    assert list(tmp_path.iterdir()) == [path]


def test_a_key_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "key"
    installation_key(path, random.Random(1))
    path.chmod(0o644)
    with pytest.raises(Denied, match="chmod 600"):
        installation_key(path, random.Random(1))
