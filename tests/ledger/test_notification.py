"""Segments that were handed over: kept until they are folded, and never more than there is room for."""

from arco.ledger.notification import SegmentCache
from arco.ledger.segment import Segment


def segment(seq: int, size: int = 10, stream: str = "s") -> Segment:
    return Segment(stream, seq, False, b"x" * size)


def test_a_row_ends_at_the_first_gap() -> None:
    handed = SegmentCache()
    for seq in (3, 4, 5, 7):
        handed.add(segment(seq))
    assert handed.last_consecutive("s", 3) == 5
    assert handed.last_consecutive("s", 6) == 5
    assert handed.last_consecutive("s", 7) == 7
    assert handed.last_consecutive("other", 3) == 2


def test_what_is_removed_is_gone_and_frees_its_room() -> None:
    handed = SegmentCache(max_bytes=20)
    for seq in range(100):
        handed.add(segment(seq))
        assert handed.find("s", seq) == b"x" * 10
        handed.remove("s", seq)
        assert handed.find("s", seq) is None
    handed.add(segment(100))
    handed.add(segment(101))
    assert handed.last_consecutive("s", 100) == 101


def test_the_oldest_leave_when_the_room_is_full() -> None:
    handed = SegmentCache(max_bytes=25)
    for seq in range(5):
        handed.add(segment(seq))
        handed.add(segment(seq))  # twice is once
    assert [handed.find("s", seq) is not None for seq in range(5)] == [False] * 3 + [True] * 2
    handed.add(segment(5, size=26))  # larger than all the room
    assert handed.find("s", 5) is None
