"""A project of a seed, and what a serial run without any trouble makes of it.

Every row names all rows that it was made from, by a digest: whatever was lost, doubled or read too early
changes it, and all that stands behind it.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

PARTS = ("a", "b", "c")
SCHEMA = "s"
RETRIES = 1

Tables = dict[str, dict[str, list[str]]]  # rows, by table and partition


@dataclass
class RandomAsset:
    """One asset: how it writes, and what it reads. `all_of`: all partitions of an input, not its own."""

    name: str
    mode: str
    inputs: dict[str, bool] = field(default_factory=dict)  # whether all partitions are read
    is_cut: bool = True
    version: int = 1

    @property
    def table(self) -> str:
        return f"{SCHEMA}.{self.name}"

    @property
    def partitions(self) -> tuple[str, ...]:
        return tuple(f"p={part}" for part in PARTS) if self.is_cut else ("",)


@dataclass
class RandomProject:
    """Assets in an order in which each stands after what it reads."""

    lines: dict[str, RandomAsset]

    def write(self, folder: Path) -> None:
        """The project as files; only its definitions matter, as another executor makes the rows."""
        package = folder / "pipelines"
        package.mkdir(parents=True, exist_ok=True)
        text = f'from arco import Static, asset, table\nP = Static("p", {list(PARTS)!r})\n'
        (package / "lines.py").write_text(text + "".join(map(_text, self.lines.values())))

    def remade(self, name: str, *, append_again: bool) -> list[str]:
        """The assets that run again when one of them changes: it, and those downstream of what runs.

        Rows are appended a second time only if that is asked for.
        """
        remade_names: list[str] = []
        for line in self.lines.values():
            is_stale = line.name == name or not line.inputs.keys().isdisjoint(remade_names)
            if is_stale and (append_again or line.mode != "append"):
                remade_names.append(line.name)
        return remade_names

    def make(self, tables: Tables, names: Iterable[str]) -> None:
        """Make all partitions of some assets, one after the other, and nothing goes wrong."""
        for name in names:
            line = self.lines[name]
            for partition in line.partitions:
                read = [
                    row for each in line.inputs for row in self.read(tables, line, each, partition)
                ]
                row = made_row(line, partition, read)
                rows_by_partition = tables.setdefault(name, {})
                rows_by_partition[partition] = [
                    *(rows_by_partition.get(partition, []) if line.mode == "append" else []),
                    row,
                ]

    def read(
        self,
        tables: Mapping[str, Mapping[str, list[str]]],
        line: RandomAsset,
        name: str,
        partition: str,
    ) -> list[str]:
        """The rows that a partition of an asset reads of one of its inputs."""
        source = tables[name]
        wanted = self.lines[name].partitions if line.inputs[name] else (partition,)
        return [row for each in wanted for row in source[each]]


def made_row(line: RandomAsset, partition: str, read: Iterable[str]) -> str:
    """The one row that an asset makes of a partition out of what it reads."""
    digest = hashlib.sha256("\n".join(sorted(read)).encode()).hexdigest()[:16]
    return f"{line.name}/{partition}/{line.version}/{digest}"


def random_project(random: Random) -> RandomProject:
    """Two to six assets, cut or not, in any way of writing that plain files have."""
    lines: dict[str, RandomAsset] = {}
    for number in range(random.randrange(2, 7)):
        is_cut = random.random() < 0.7
        mode = random.choice(["replace_partition", "append"] if is_cut else ["replace", "append"])
        line = RandomAsset(f"t{number}", mode, is_cut=is_cut)
        for name in random.sample(list(lines), random.randrange(min(3, len(lines)) + 1)):
            other = lines[name]
            line.inputs[name] = not (line.is_cut and other.is_cut) or random.random() < 0.3
        lines[line.name] = line
    return RandomProject(lines)


def _text(line: RandomAsset) -> str:
    cut = ", partitions=P" if line.is_cut else ""
    reads = "".join(
        f', {name}=table("{SCHEMA}.{name}"{", partitions=" + repr("all") if reads_all else ""})'
        for name, reads_all in line.inputs.items()
    )
    return (
        f"\n\nV_{line.name} = {line.version}\n\n\n"
        f'@asset("{line.table}"{cut}, format="parquet", mode="{line.mode}", retries={RETRIES})\n'
        f"def {line.name}(spark{reads}):\n    return V_{line.name}\n"
    )
