"""The four domains: which tables each has, and where its files lie."""

from arco.compactor.encode import state_root
from arco.fold.table import StateTable
from arco.fold.tier1 import DOMAIN, TIER1
from arco.fold.tier2 import QUARANTINE, TIER2

DOMAINS = (DOMAIN, *TIER2)


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
