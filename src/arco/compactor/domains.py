"""The four domains: their tables, and the paths of their files."""

from arco.fold.table import StateTable
from arco.fold.tier1 import DOMAIN, TIER1
from arco.fold.tier2 import QUARANTINE, TIER2

DOMAINS = (DOMAIN, *TIER2)
VISIBILITY = "all"
COMBINED = "combined"  # the folder of combined files, beside those of the tables


def tables_of(domain: str) -> dict[str, StateTable]:
    """The tables of a domain by their names."""
    return TIER1 if domain == DOMAIN else TIER2[domain]


def folder_of(domain: str, table: str, visibility: str) -> str:
    """The folder of the files of a table."""
    root = table if table == QUARANTINE.name else state_root(domain)
    return f"{root}/{domain}/{visibility}/{table}/"


def folders_of(domain: str) -> tuple[str, ...]:
    """All folders with files of a domain."""
    root = f"{state_root(domain)}/{domain}/"
    return (root, f"{QUARANTINE.name}/{domain}/") if domain in TIER2 else (root,)


def file_path(domain: str, table: StateTable, name: str) -> str:
    """The path of a state file. It contains the visibility, so that access rules can use the path."""
    return f"{folder_of(domain, table.name, VISIBILITY)}{name}.parquet"


def combined_path(domain: str, name: str) -> str:
    """The path of a combined file, which has rows of several tables."""
    return f"{folder_of(domain, COMBINED, VISIBILITY)}{name}.parquet"


def index_path(domain: str, name: str) -> str:
    """The path of an index of base files."""
    return f"{state_root(domain)}/{domain}/index/{name}.json"


def state_root(domain: str) -> str:
    """The top-level folder of the state files of a domain."""
    return "snapshots" if domain == DOMAIN else "state"
