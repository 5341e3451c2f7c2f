"""Arco Flow: assets and their partitions, plans and runs."""
