"""Reasons: what DataFusion says of a query that it cannot answer, for the person who wrote it."""

import re

_LONGEST = 500

# In front of what matters, sometimes several.
_PREFIX = re.compile(
    r"^(DataFusion error|Error during planning|This feature is not implemented|Execution error|SQL error|"
    r"Schema error|Arrow error|Optimizer rule '[^']*' failed|External error|Compute error|"
    r"Invalid argument error|Parser error|type_coercion|caused by)(: |$)"
)
_PARSER = re.compile(r'^(?:ParserError|TokenizerError)\("(.*)"\)$')

_CHANGES = re.compile(r"^(DDL|DML|Statement) not supported")
_INTERNAL = re.compile(r"^Internal error|panicked| at .*\.rs:\d+")

_NO_TABLE = re.compile(r"^table '(?:datafusion\.)?(?:public\.)?(?P<name>[^']+)' not found")

_MEMORY = "the query needs more memory than is allowed: select less, or group by less"


def reason_of(problem: BaseException) -> str:
    """One sentence on why a query was refused, free of internals."""
    if not isinstance(problem, Exception):
        return "the query cannot be planned or run: write it in another way"
    if isinstance(problem, MemoryError):
        return _MEMORY
    line = _strip(str(problem))
    if line.startswith("Resources exhausted"):
        return _MEMORY
    if _INTERNAL.search(line) or not line:
        return "the query cannot be planned or run: write it in another way"
    return _for_people(line)


def _for_people(line: str) -> str:
    if (missing := _NO_TABLE.match(line)) is not None:
        return (
            f"there is no table {missing['name'][:200]}: SQL answers for the tables of system, which "
            f"SHOW TABLES lists. The rows of your own tables are shown by `arco preview SCHEMA.TABLE`, "
            f"or by an engine: `arco connect`"
        )
    if _CHANGES.match(line):
        return f"queries are read only: {line[:_LONGEST]}"
    return line[:_LONGEST]


def _strip(text: str) -> str:
    """The first line that says something, without what stands in front of it."""
    for line in text.splitlines():
        said = line.strip()
        while (match := _PREFIX.match(said)) is not None:
            said = said[match.end() :]
        if said:
            parser = _PARSER.match(said)
            return parser.group(1) if parser is not None else said
    return ""
