"""Assets that are queries: a `.sql` file with a header, or `sql("gold.spend", path="spend.sql")`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from arco.core.errors import Invalid
from arco.flow.define.asset import AssetDef, AssetOptions, collect_asset
from arco.flow.define.check import CheckDef
from arco.flow.define.collect import Collection, complain, current, here
from arco.flow.define.mode import Mode
from arco.flow.define.name import three_levels
from arco.flow.define.option import Cut
from arco.flow.define.problem import Problem
from arco.flow.define.retry import Retry
from arco.flow.define.sql_header import HeaderError, read_header, split_header
from arco.flow.define.sql_text import tables_read
from arco.flow.define.table import InputDef
from arco.flow.define.where import SourceLine


def sql(
    name: str,
    *,
    path: str | None = None,
    query: str | None = None,
    partitions: Cut = None,
    mode: str | Mode | None = None,
    on_change: str | None = None,
    format: str | None = None,  # noqa: A002 - the word that people look for
    checks: Sequence[CheckDef] = (),
    retries: int | Retry | None = None,
    timeout: str | None = None,
    pool: str | None = None,
    tags: Sequence[str] = (),
    owner: str | None = None,
    description: str | None = None,
    strict: bool = False,
    on_missing_column: str | None = None,
) -> None:
    """Declare that a query computes a table; `path` is relative to the file that says so."""
    options = AssetOptions(
        partitions=partitions,
        mode=mode,
        on_change=on_change,
        format=format,
        checks=checks,
        retries=retries,
        timeout=timeout,
        pool=pool,
        tags=tags,
        owner=owner,
        description=description,
        strict=strict,
        on_missing_column=on_missing_column,
    )
    if (path is None) == (query is None):
        complain("a query is given by its path or as text: give one of both")
        return
    where = here()
    if query is not None:
        collect_asset(_Query(query, where).asset(name, options))
        return
    collection = current()
    if collection is not None and path is not None:
        _from_file(collection, collection.folder / Path(where.file).parent / path, name, options)


def _from_file(collection: Collection, path: Path, name: str, options: AssetOptions) -> None:
    path = path.resolve()
    collection.sql_files.add(path)
    if not path.is_relative_to(collection.folder) or not path.is_file():
        complain(f"there is no file {path.name} at this path in the project")
        return
    said, query = split_header(path.read_text(encoding="utf-8"))
    if said is not None:
        complain(f"{path.name} has a header: its options stand there or here, not in both places")
    where = here()
    file = path.relative_to(collection.folder).as_posix()
    collect_asset(_Query(query, where, file).asset(name, options))


def load_sql(collection: Collection, path: Path) -> None:
    """The asset of a file that has a header; one without is told of, unless a module means it."""
    file = path.relative_to(collection.folder).as_posix()
    collection.declared_in = SourceLine(file, 1)
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        said, query = split_header(text)
        if said is None:
            _declares_nothing(collection, path)
            return
        header = read_header(said)
        if header.name is None:
            complain("the header does not name its table: write name: gold.spend")
            return
        where = collection.declared_in
        made = _Query(query, where, file, header.inputs)
        collect_asset(made.asset(header.name, header.options))
    except HeaderError as wrong:
        collection.problems.append(Problem(file, wrong.line, str(wrong)))
        collection.unread.append(text)
    except UnicodeDecodeError as wrong:
        complain(f"the file is not UTF-8: {wrong}")
    finally:
        collection.declared_in = None


def _declares_nothing(collection: Collection, path: Path) -> None:
    """Warn of a query without a header, as code may read it; one that cannot be loaded may name it."""
    if any(path.name in text for text in collection.unread):
        return
    header = "/*--- name: gold.spend ---*/"
    message = f"declares nothing: it has no header {header}, and no sql(path=...) names it"
    file = path.relative_to(collection.folder).as_posix()
    collection.warnings.append(Problem(file, 1, message))


@dataclass(frozen=True)
class _Query:
    """A query, what is declared of its inputs, and where both stand."""

    text: str
    where: SourceLine
    file: str | None = None  # of the query itself, if it has one
    inputs: tuple[InputDef, ...] = ()

    def asset(self, name: str, options: AssetOptions) -> AssetDef:
        if not self.text.strip():
            complain("the query is empty")
        inputs = (*self.inputs, *self._others())
        return options.define(
            name, sql=self._kept(), sql_file=self.file, inputs=inputs, where=self.where
        )

    def _kept(self) -> str:
        """The query; out of a file with its lines where they are there, for the errors of Spark."""
        return self.text.strip() if self.file is None else self.text.rstrip()

    def _others(self) -> Iterator[InputDef]:
        """The tables that the query names and nobody has declared as an input."""
        known = {each.table for each in self.inputs}
        for named in tables_read(self.text):
            try:
                table = three_levels(named.name)
            except Invalid as wrong:
                complain(str(wrong))
                continue
            if table not in known:
                known.add(table)
                where = self.where if self.file is None else SourceLine(self.file, named.line)
                yield InputDef(named.name, table, where=where)
