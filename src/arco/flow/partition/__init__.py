"""Partitions: the dimensions of an asset, the keys of its partitions, and mappings between assets.

It promises one spelling for each partition key, and works by arithmetic: thirty years of hours cost nothing
until a caller iterates over them. It never reads a clock; `now` is an argument. It may import core, and
events for the spelling of keys.
"""

from arco.flow.partition.calendar import Daily, Hourly, Monthly, Weekly
from arco.flow.partition.dimension import Dimension, Dynamic, Static, checked_dynamic_values
from arco.flow.partition.link import MappingContext
from arco.flow.partition.mapping import (
    Mapping,
    all_partitions,
    custom,
    default_mapping,
    identity,
    latest,
    offset,
    roll_up,
    window,
)
from arco.flow.partition.partition_set import PartitionSet
from arco.flow.partition.partitions import Partitions
from arco.flow.partition.upstreams import Upstreams

__all__ = [
    "Daily",
    "Dimension",
    "Dynamic",
    "Hourly",
    "Mapping",
    "MappingContext",
    "Monthly",
    "PartitionSet",
    "Partitions",
    "Static",
    "Upstreams",
    "Weekly",
    "all_partitions",
    "checked_dynamic_values",
    "custom",
    "default_mapping",
    "identity",
    "latest",
    "offset",
    "roll_up",
    "window",
]
