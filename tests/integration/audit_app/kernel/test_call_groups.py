"""Calls in the database's threads that are made together."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.db import OperationalError

from audit_app.kernel.database import CallGroups

pytestmark = pytest.mark.django_db(transaction=True)


class Doubling:
    """Doubles numbers, once it may begin; keeps the groups that it was called with."""

    def __init__(self, check: Callable[[Sequence[int]], None] = lambda numbers: None) -> None:
        self.groups: list[list[int]] = []
        self.has_begun, self.may_begin = threading.Event(), threading.Event()
        self._check = check

    def __call__(self, numbers: Sequence[int]) -> list[int]:
        self.groups.append([*numbers])
        self.has_begun.set()
        assert self.may_begin.wait(30)
        self._check(numbers)
        return [2 * number for number in numbers]


async def _call_while_the_first_runs(doubling: Doubling, groups: CallGroups[int, int], numbers: Sequence[int]) -> Any:
    """Call for all numbers, and return their results, or what they raised."""
    calls = [asyncio.create_task(groups.call(numbers[0]))]
    assert await asyncio.to_thread(doubling.has_begun.wait, 30)
    calls += [asyncio.create_task(groups.call(number)) for number in numbers[1:]]
    await asyncio.sleep(0)  # they wait
    doubling.may_begin.set()
    return await asyncio.gather(*calls, return_exceptions=True)


async def test_calls_that_come_during_another_are_made_together() -> None:
    doubling = Doubling()
    assert await _call_while_the_first_runs(doubling, CallGroups(doubling), [1, 2, 3, 4]) == [2, 4, 6, 8]
    assert doubling.groups == [[1], [2, 3, 4]]


async def test_an_item_that_fails_is_not_the_fault_of_the_others() -> None:
    def check(numbers: Sequence[int]) -> None:
        if 3 in numbers:
            raise LookupError("three")

    doubling = Doubling(check)
    found = await _call_while_the_first_runs(doubling, CallGroups(doubling), [1, 2, 3, 4])
    assert [str(each) for each in found] == ["2", "4", "three", "8"]
    assert doubling.groups == [[1], [2, 3, 4], [2], [3], [4]]


async def test_all_items_of_a_group_learn_that_the_database_is_away() -> None:
    def check(numbers: Sequence[int]) -> None:
        if len(numbers) > 1:
            raise OperationalError("away")

    doubling = Doubling(check)
    groups = CallGroups(doubling)
    found = await _call_while_the_first_runs(doubling, groups, [1, 2, 3])
    assert [str(each) for each in found] == ["2", "away", "away"]
    assert await groups.call(5) == 10, "it could not be called again"
    assert doubling.groups == [[1], [2, 3], [5]]


async def test_items_with_different_keys_are_in_different_groups() -> None:
    doubling = Doubling()
    groups = CallGroups(doubling, key=lambda number: number % 2)
    assert await _call_while_the_first_runs(doubling, groups, [1, 2, 3, 4, 5]) == [2, 4, 6, 8, 10]
    assert sorted(doubling.groups) in ([[1], [2], [3, 5], [4]], [[1], [2, 4], [3, 5]])


async def test_a_group_has_at_most_fifty_items() -> None:
    doubling = Doubling()
    await _call_while_the_first_runs(doubling, CallGroups(doubling), [*range(102)])
    assert list(map(len, doubling.groups)) == [1, 50, 50, 1]
