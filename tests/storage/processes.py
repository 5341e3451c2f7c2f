"""Real processes on one local store: racers for a key, and writers that are killed while they write.

As a process: `python -m tests.storage.processes race ROOT RACERS ROUNDS` waits for a line on its
input, then races; `... kill ROOT KILLS SEED [named]` forks writers and kills them, one generation
after the other, and prints what they acknowledged. Results are JSON on the output.
"""

import asyncio
import itertools
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from arco.core.errors import AlreadyExists
from arco.core.hashing import sha256_hex
from arco.core.runtime import system_runtime
from arco.core.scope import Scope
from arco.storage.chain import Chain, Head
from arco.storage.local import LocalBackend
from arco.storage.roles import Role
from arco.storage.store import Store

WRITERS = 2
LANES = 3


def self_checking(name: str, rng: random.Random) -> bytes:
    """A body that shows whether it is complete: its first line is the hash of the rest."""
    rest = f"{name}\n".encode() + rng.randbytes(rng.choice([10, 5_000, 300_000]))
    return sha256_hex(rest).encode() + b"\n" + rest


def is_whole(body: bytes) -> bool:
    claimed, _, rest = body.partition(b"\n")
    return claimed == sha256_hex(rest).encode()


async def race(root: Path, racers: int, rounds: int) -> list[list[str]]:
    """For each round, the names of the racers of this process whose create succeeded."""
    backend = LocalBackend(root, system_runtime())

    async def run(number: int, name: str) -> list[str]:
        try:
            await backend.create(f"race/{number}", name.encode())
        except AlreadyExists:
            return []
        return [name]

    won = []
    for number in range(rounds):
        names = [f"{os.getpid()}-{racer}" for racer in range(racers)]
        answers = await asyncio.gather(*(run(number, name) for name in names))
        won.append([name for answer in answers for name in answer])
    return won


class Writer:
    """Creates objects, appends to one chain and leaves hints; prints a line for each once it is done."""

    def __init__(self, root: Path, acknowledgements: int, seed: int) -> None:
        runtime = system_runtime()
        backend = LocalBackend(root, runtime)
        self._store = Store(backend, runtime, scope=Scope(), role=Role.API)
        self._acknowledgements = acknowledgements
        self._name = f"{os.getpid()}-{seed}"
        self._rng = random.Random(seed)
        self._say(f"swept {backend.swept}")

    def _say(self, line: str) -> None:
        os.write(self._acknowledgements, f"{line}\n".encode())

    async def create(self, lane: int) -> NoReturn:
        for count in itertools.count():
            key = f"ledger/{lane}/{self._name}/{count:012d}.jsonl"
            await self._store.create(key, self_checking(key, self._rng))
            self._say(f"object {key}")
        raise AssertionError

    async def append(self) -> NoReturn:
        chain = Chain(self._store, "locks/shared")
        for count in itertools.count():

            async def build(_: Head, count: int = count) -> str:
                return f"{self._name}-{count}"

            head = await chain.extend(build)
            self._say(f"number {head.number} {self._name}-{count}")
        raise AssertionError

    async def run(self) -> None:
        await asyncio.gather(self.append(), *(self.create(lane) for lane in range(LANES)))


def fork_writer(root: Path, seed: int) -> tuple[int, int]:
    """The id of a process that runs a writer, and the descriptor of its acknowledgements."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        asyncio.run(Writer(root, write_end, seed).run())
    os.close(write_end)
    return pid, read_end


def kill_repeatedly(root: Path, kills: int, seed: int) -> dict[str, object]:
    rng = random.Random(seed)
    objects: list[str] = []
    numbers: dict[str, str] = {}
    killed = swept = 0
    while killed < kills:
        writers = [fork_writer(root, rng.randrange(10**9)) for _ in range(WRITERS)]
        time.sleep(rng.uniform(0.01, 0.15))
        for pid, _ in writers:
            os.kill(pid, signal.SIGKILL)
        for pid, read_end in writers:
            _, status = os.waitpid(pid, 0)
            killed += os.WIFSIGNALED(status)
            with os.fdopen(read_end) as lines:
                # A line without its end was being written when the writer died.
                for line in (line for line in lines if line.endswith("\n")):
                    match line.split():
                        case ["object", key]:
                            objects.append(key)
                        case ["number", number, name]:
                            numbers[number] = name
                        case ["swept", count]:
                            swept += int(count)
    return {"killed": killed, "swept": swept, "objects": objects, "numbers": numbers}


def main() -> None:
    task, root, *rest = sys.argv[1:]
    if task == "race":
        print("ready", flush=True)
        sys.stdin.readline()
        print(json.dumps(asyncio.run(race(Path(root), int(rest[0]), int(rest[1])))))
    else:
        if rest[2:] == ["named"]:
            del os.O_TMPFILE
        print(json.dumps(kill_repeatedly(Path(root), int(rest[0]), int(rest[1]))))


if __name__ == "__main__":
    main()
