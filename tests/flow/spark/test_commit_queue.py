"""Commit queues of tables: one attempt at a time, in the order of arrival, whatever happens to it."""

from collections.abc import Callable
from threading import Event, Thread
from time import monotonic, sleep

import pytest

from arco.flow.spark.commit_queue import CommitQueues

LONG_S = 30


class Queue:
    """Threads that ask for the turn of one table, one after the other."""

    def __init__(self) -> None:
        self.commit_queues = CommitQueues()
        self.order: list[int] = []
        self._threads: list[Thread] = []

    def ask(self, number: int, heed: Callable[[], None] = lambda: None) -> Thread:
        def run() -> None:
            with self.commit_queues.hold("t", heed):
                self.order.append(number)

        return self.start(run)

    def start(self, run: Callable[[], None]) -> Thread:
        """Start a thread, and wait until it is in the queue."""
        before = self._waiting()
        thread = Thread(target=run)
        thread.start()
        until = monotonic() + LONG_S
        while self._waiting() == before and thread.is_alive() and monotonic() < until:
            sleep(0.001)
        self._threads.append(thread)
        return thread

    def join(self) -> None:
        for each in self._threads:
            each.join(LONG_S)
            assert not each.is_alive()

    def _waiting(self) -> int:
        return len(self.commit_queues._queues.get("t", ()))


def test_turns_come_in_the_order_of_asking() -> None:
    queue = Queue()
    with queue.commit_queues.hold("t"):
        for number in range(8):
            queue.ask(number)
        assert queue.order == []
    queue.join()
    assert queue.order == list(range(8))


def test_tables_do_not_wait_for_each_other() -> None:
    commit_queues, done = CommitQueues(), Event()

    def other() -> None:
        with commit_queues.hold("u"):
            done.set()

    with commit_queues.hold("t"):
        Thread(target=other).start()
        assert done.wait(LONG_S)


def test_who_has_the_turn_may_take_it_again_and_keeps_it_until_the_outer_block_ends() -> None:
    queue = Queue()
    with queue.commit_queues.hold("t"):
        with queue.commit_queues.hold("t"):
            queue.ask(1)
        sleep(0.05)
        assert queue.order == []
    queue.join()
    assert queue.order == [1]


def test_an_error_ends_the_turn() -> None:
    queue = Queue()
    with pytest.raises(ValueError, match="no"), queue.commit_queues.hold("t"):
        raise ValueError("no")
    queue.ask(1)
    queue.join()
    assert queue.order == [1]


def test_a_stopped_attempt_leaves_the_queue_and_blocks_no_other() -> None:
    queue, stopped = Queue(), Event()

    class Stop(BaseException):
        pass

    def heed() -> None:
        stopped.set()
        raise Stop

    def run() -> None:
        with pytest.raises(Stop), queue.commit_queues.hold("t", heed):
            queue.order.append(-1)

    with queue.commit_queues.hold("t"):
        first = queue.start(run)
        queue.ask(2)
        assert stopped.wait(LONG_S)
        first.join(LONG_S)
        assert queue.order == []
    queue.join()
    assert queue.order == [2]
