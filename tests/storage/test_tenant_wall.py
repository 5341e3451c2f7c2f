"""The tenant wall (figure 21, law 10): 10,000 hostile names, and not a byte outside the scope."""

import random
from pathlib import Path

import pytest

from arco.core.errors import ArcoError, Invalid
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.backend import Backend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.figures import Figure
from tests.stores import open_bench

NAMES = 10_000
PIECES = (
    *("..", ".", "", "...", "%2e%2e", "%2E%2E", "%252e%252e", "%c0%ae%c0%ae", ".%2e", "%00", "%2f"),
    *(
        "\uff0e\uff0e",
        "\u2025",
        "\u2024\u2024",
        "\u2215",
        "\uff0f",
        "\u29f8",
        "\\",
        "\\..\\",
        "..\\",
    ),
    *(
        "\0",
        "\n",
        "\r\n",
        "\x1b[2J",
        "\x7f",
        "\u202e",
        "\u200f",
        "\u2066",
        "\ufeff",
        "\u00a0",
        "\u200b",
    ),
    *(
        "\u00e9",
        "e\u0301",
        "\u212b",
        "\u00c5",
        "A\u030a",
        "\u0130",
        "\u017f",
        "\ud800",
        "\udfff",
        "\U0010ffff",
    ),
    *(
        "a.",
        "a ",
        " a",
        "~",
        "~root",
        "$HOME",
        "`id`",
        "{tenant}",
        "*",
        "?",
        "[a]",
        "con",
        "C:",
        "-rf",
    ),
    *("tenant=a", "tenant=ab", "tenant=b", "workspace=default", "workspace=other", "tenant="),
    *(
        ".arco",
        ".arco/key",
        "key",
        "secret",
        "locks",
        "x.json",
        "file://",
        "s3://b",
        "x" * 256,
        "d/" * 20,
    ),
)
GLUE = ("/", "/", "/", "", "//", "\\", "%2f", "%5c", "/../", "/./", "=")
NEIGHBOURS = (
    "secret",
    "tenant=ab/workspace=default/locks/secret",
    "tenant=b/workspace=default/locks/secret",
    "tenant=a/secret",
    "tenant=a/workspace=default2/secret",
    "tenant=a/workspace=other/locks/secret",
)
SECRET = b"a neighbour's secret"
OURS = Scope(tenant="a")


def hostile_names() -> list[str]:
    rng = random.Random(20_260_131)
    names: dict[str, None] = {}
    while len(names) < NAMES:
        name = rng.choice(PIECES)
        for _ in range(rng.randrange(5)):
            name += rng.choice(GLUE) + rng.choice(PIECES)
        names[rng.choice(("", "/", "locks/", "locks/d/", "../")) + name] = None
    return list(names)


class Attacker:
    """Tries every verb with every name, and records the answers and the created keys."""

    def __init__(self, backend: Backend, runtime: Runtime) -> None:
        self._api = Store(backend, runtime, scope=OURS, role=Role.API)
        self._janitor = Store(backend, runtime, scope=OURS, role=Role.JANITOR)
        self.created_keys: set[str] = set()
        self.read: set[bytes] = set()
        self.refused = 0

    async def attack(self, name: str) -> None:
        for attempt in (self._create, self._hint, self._read, self._list, self._delete):
            try:
                await attempt(name)
            except ArcoError as problem:
                self.refused += isinstance(problem, Invalid)

    async def _create(self, name: str) -> None:
        await self._api.create(name, name.encode("utf-8", "replace"))
        self.created_keys.add(OURS.prefix + name)

    async def _hint(self, name: str) -> None:
        key = f"locks/{name}/head.json"
        if await self._api.put_hint(key, b"a hint"):
            self.created_keys.add(OURS.prefix + key)

    async def _read(self, name: str) -> None:
        self.read.add(await self._janitor.get(name))
        self.read.add(await self._janitor.get_range(name, 0, 100))

    async def _list(self, name: str) -> None:
        for prefix in (name, name + "/"):
            try:
                keys = [meta.key async for meta in self._janitor.list(prefix)]
            except Invalid:
                continue
            assert all(key.startswith(prefix) for key in keys), prefix

    async def _delete(self, name: str) -> None:
        if len(name) % 2:  # some stay, to be found at the end
            await self._janitor.delete(name)
            self.created_keys.discard(OURS.prefix + name)


@pytest.mark.parametrize("kind", ["memory", "local"])
async def test_ten_thousand_hostile_names_reach_nothing_outside_their_scope(
    kind: str, tmp_path: Path, runtime: Runtime, figure: Figure
) -> None:
    (tmp_path / "secret").write_bytes(SECRET)
    root = tmp_path / "root"
    backend = open_bench("memory://" if kind == "memory" else str(root), runtime).backend
    for key in NEIGHBOURS:
        await backend.create(key, SECRET)
    attacker = Attacker(backend, runtime)
    for name in hostile_names():
        await attacker.attack(name)
    assert SECRET not in attacker.read
    stored = {meta.key: await backend.get(meta.key) async for meta in backend.list("")}
    assert {key for key in stored if key not in NEIGHBOURS} == attacker.created_keys
    assert all(stored[key] == SECRET for key in NEIGHBOURS)
    assert all(key.startswith(OURS.prefix) for key in attacker.created_keys)
    if kind == "local":
        on_disk = {path for path in tmp_path.rglob("*") if path.is_file()}
        assert on_disk == {tmp_path / "secret", *(root / key for key in stored)}
    assert attacker.refused > NAMES
    assert len(attacker.created_keys) > 100  # or all names were refused and the test proves nothing
    figure(
        f"tenant wall, {kind}: {NAMES} hostile names, {len(attacker.created_keys)} objects made in scope, "
        "0 bytes read or written outside"
    )


def test_no_hostile_name_is_a_tenant() -> None:
    prefixes = set()
    for name in hostile_names():
        try:
            prefixes.add(Scope(tenant=name).prefix)
        except Invalid:
            continue
    assert prefixes <= {
        f"tenant={name}/workspace=default/" for name in ("con", "key", "secret", "locks")
    }
