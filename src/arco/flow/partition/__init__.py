"""Partitions: how an asset is cut in pieces, what the pieces are called, and which pieces read which.

It promises one spelling for each partition, and answers by arithmetic: thirty years of hours cost
nothing until somebody walks over them. It never asks what time it is; `now` is an argument. It enters
core, and events for the spelling of keys.
"""

from arco.flow.partition.calendar import Daily, Monthly, Weekly
from arco.flow.partition.custom import custom
from arco.flow.partition.dimension import Dimension
from arco.flow.partition.hourly import Hourly
from arco.flow.partition.listed import Dynamic, Static, known
from arco.flow.partition.mapping import Mapping
from arco.flow.partition.product import Partitions
from arco.flow.partition.reading import Reading
from arco.flow.partition.shift import default_mapping, identity, offset, roll_up, window
from arco.flow.partition.subset import PartitionSet
from arco.flow.partition.upstreams import Upstreams
from arco.flow.partition.whole import all_partitions, latest

__all__ = [
    "Daily",
    "Dimension",
    "Dynamic",
    "Hourly",
    "Mapping",
    "Monthly",
    "PartitionSet",
    "Partitions",
    "Reading",
    "Static",
    "Upstreams",
    "Weekly",
    "all_partitions",
    "custom",
    "default_mapping",
    "identity",
    "known",
    "latest",
    "offset",
    "roll_up",
    "window",
]
