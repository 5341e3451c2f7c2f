"""A task is taken over while its first attempt stands still in its commit: one of them publishes."""

from collections.abc import Awaitable, Callable

import pytest

from arco.catalog.publication import Numbered
from arco.iceberg.errors import FENCED, IcebergError
from tests.iceberg.publishing import attempt_at, current, publish
from tests.iceberg.workshop import Line, Workshop, with_table

MOST = 60  # requests of one commit, at most


def _at(line: Line, number: int, step: Callable[[], Awaitable[object]], *, after: bool) -> None:
    """Do something when so many requests of a process have come by."""
    count = 0

    async def counted() -> None:
        nonlocal count
        count += 1
        if count == number:
            await step()

    (line.after if after else line.before)("", "", counted, times=10_000)


async def _take_over(shop: Workshop, table_id: str) -> bool:
    """What the book does before it gives the task away, then what the second attempt does."""
    api = shop.api()
    fenced = await api.iceberg.fences.fence(table_id, attempt_at(shop, "two", 0), since=0)
    if isinstance(fenced, Numbered):
        assert fenced.publication.attempt_id == "one"
        return False
    await publish(api, 2, attempt_at(shop, "two", fenced))
    return True


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("after", [False, True])
async def test_a_commit_that_stood_still_at_any_request_publishes_or_is_refused(
    key: str | None, *, after: bool
) -> None:
    ends = set()
    for number in range(1, MOST):
        shop, [table_id] = await with_table("t")
        api = shop.api()
        await api.load("t")
        took: list[bool] = []

        async def take_over(
            shop: Workshop = shop, table_id: str = table_id, took: list[bool] = took
        ) -> None:
            took.append(await _take_over(shop, table_id))

        _at(api.line, number, take_over, after=after)
        try:
            await publish(api, 1, attempt_at(shop, "one", 0), key=key)
            by = "one"
        except IcebergError as late:
            # Before its own commit is on the way the client has read the newer table, and is late all
            # the same; after that its snapshot is stale as well.
            assert late.kind in {FENCED, "CommitFailedException"}
            by = "two"
        if not took:
            break
        assert took == [by == "two"], number
        said = [each.publication for each in await shop.pointers(table_id)]
        published = [each.attempt_id for each in said if each is not None and not each.is_fence]
        assert published == [by]
        assert await current(shop.api()) == (1 if by == "one" else 2)
        ends.add(by)
    else:
        raise AssertionError("a commit takes more requests than thought")
    # Until its create has reached the store, the first has nothing to show.
    assert ends == ({"one", "two"} if after else {"two"})
