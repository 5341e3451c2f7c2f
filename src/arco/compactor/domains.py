"""The four domains: which tables each has, and where its files lie."""

from arco.fold.table import StateTable
from arco.fold.tier1 import DOMAIN, TIER1
from arco.fold.tier2 import QUARANTINE, TIER2

DOMAINS = (DOMAIN, *TIER2)
VISIBILITY = "all"


def tables_of(domain: str) -> dict[str, StateTable]:
    """The tables of a domain by their names."""
    return TIER1 if domain == DOMAIN else TIER2[domain]


def folder_of(domain: str, table: str, visibility: str) -> str:
    """Below which folder the files of a table lie."""
    root = table if table == QUARANTINE.name else state_root(domain)
    return f"{root}/{domain}/{visibility}/{table}/"


def folders_of(domain: str) -> tuple[str, ...]:
    """Below which folders the files of a domain lie."""
    root = f"{state_root(domain)}/{domain}/"
    return (root, f"{QUARANTINE.name}/{domain}/") if domain in TIER2 else (root,)


def file_path(domain: str, table: StateTable, name: str) -> str:
    """Where a file of a table lies; its visibility is part of the path, so that access can go by it."""
    root = "quarantine" if table.name == QUARANTINE.name else state_root(domain)
    return f"{root}/{domain}/{VISIBILITY}/{table.name}/{name}.parquet"


def index_path(domain: str, name: str) -> str:
    """Where an index of base files lies."""
    return f"{state_root(domain)}/{domain}/index/{name}.json"


def state_root(domain: str) -> str:
    """Below which folder the files of a domain lie."""
    return "snapshots" if domain == DOMAIN else "state"
