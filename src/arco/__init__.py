"""Arco: a lakehouse catalog and orchestrator with no database."""

__version__ = "0.1.0"
