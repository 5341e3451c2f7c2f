"""What the room offers to others, by name."""

import arco.flow.partition


def test_the_public_names_are_these() -> None:
    assert set(arco.flow.partition.__all__) == {
        *("Hourly", "Daily", "Weekly", "Monthly", "Static", "Dynamic", "Dimension"),
        *("Partitions", "PartitionSet", "Mapping", "default_mapping", "known"),
        *("Reading", "Upstreams"),
        *("identity", "window", "offset", "roll_up", "all_partitions", "latest", "custom"),
    }
    assert all(hasattr(arco.flow.partition, name) for name in arco.flow.partition.__all__)
