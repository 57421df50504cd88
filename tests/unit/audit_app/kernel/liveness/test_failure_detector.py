"""The verdict on owners, on a clock that the test sets."""

from collections.abc import Iterable
from uuid import UUID

import pytest

from audit_app.kernel.liveness.failure_detector import Observer, has_blind_process
from audit_app.kernel.liveness.process_marks import Look, ProcessView, Traits

OWNER = UUID(int=7)


class Marks:
    """Marks in a dict. `away`: `look` raises."""

    def __init__(self) -> None:
        self.looks: dict[UUID, Look] = {}
        self.removed: set[UUID] = set()
        self.away = False

    def look(self, ids: Iterable[UUID]) -> dict[UUID, Look]:
        if self.away:
            raise ConnectionError
        wanted = set(ids)
        return {life_id: look for life_id, look in self.looks.items() if life_id in wanted or look.traits != Traits()}

    def list_processes(self) -> list[ProcessView]:
        return [ProcessView(life_id, "runs", 1, "here", look.locked) for life_id, look in self.looks.items()]

    def remove(self, ids: Iterable[UUID]) -> None:
        self.removed |= set(ids)


class Watch:
    """An observer, its marks and its clock."""

    def __init__(self) -> None:
        self.marks = Marks()
        self.now = 1000.0
        self.beat = 0
        self.observer = Observer(self.marks, clock=lambda: self.now)

    def looks(self, seconds: int, *, beats: bool = False, locked: bool = False, known: bool = True) -> list[bool]:
        """Look once a second and return for each look whether the owner was dead."""
        verdicts = []
        for _ in range(seconds):
            self.beat += beats
            self.marks.looks = {OWNER: Look(locked, self.beat)} if known else {}
            verdicts.append(OWNER in self.observer.dead([OWNER]))
            self.now += 1
        return verdicts


@pytest.fixture
def watch() -> Watch:
    return Watch()


def test_an_owner_with_a_free_lock_and_no_beat_is_dead_after_two_seconds(watch):
    assert watch.looks(3) == [False, False, True]


def test_an_unknown_owner_is_dead_after_two_seconds(watch):
    assert watch.looks(3, known=False) == [False, False, True]


def test_an_owner_with_a_held_lock_and_no_beat_is_dead_after_eight_seconds(watch):
    assert watch.looks(9, locked=True) == [False] * 8 + [True]


def test_an_owner_that_beats_without_its_lock_is_alive(watch):
    assert not any(watch.looks(20, beats=True, locked=False))


def test_the_time_counts_from_the_last_beat(watch):
    watch.looks(5, beats=True)
    assert watch.looks(2) == [False, True]


def test_a_swept_mark_does_not_reset_the_clock(watch):
    watch.looks(2)
    assert watch.looks(1, known=False) == [True]


def test_a_pause_of_a_suspended_observer_counts_only_in_part(watch):
    watch.looks(2)
    watch.now += 1000
    assert watch.looks(2) == [False, True]


def test_a_slow_observer_still_finds_dead_owners(watch):
    verdicts = []
    for _ in range(6):
        verdicts += watch.looks(1)
        watch.now += 4
    assert verdicts == [False, False, False, False, True, True]


def test_an_unavailable_store_resets_all_clocks(watch):
    watch.looks(2)
    watch.marks.away = True
    with pytest.raises(ConnectionError):
        watch.observer.dead([OWNER])
    watch.marks.away = False
    assert watch.looks(3) == [False, False, True]


def test_two_reapers_may_share_an_observer(watch):
    for _ in range(2):
        watch.observer.dead([OWNER])
        watch.observer.dead([])
        watch.now += 1
    assert watch.observer.dead([OWNER]) == {OWNER}


def test_marks_seen_free_twice_are_swept(watch):
    watch.looks(40)
    assert not watch.marks.removed
    watch.looks(40)
    assert watch.marks.removed == {OWNER}


def test_marks_of_live_processes_stay(watch):
    watch.looks(100, locked=True)
    assert not watch.marks.removed


def test_a_live_process_that_cannot_read_is_noticed_beside_the_owners(watch):
    for locked in (True, False):
        watch.marks.looks = {OWNER: Look(True, 1), UUID(int=8): Look(locked, 1, Traits(is_blind=True))}
        assert watch.observer.dead([OWNER]) == set()
        assert has_blind_process() is locked  # a dead one has no viewers


SWEEPS = Traits(sweeps=True)
YOUNGER, OLDER = UUID(int=8), UUID(int=6)


def test_the_oldest_process_that_sweeps_comes_first(watch):
    watch.marks.looks = {OLDER: Look(True, 1), OWNER: Look(True, 1, SWEEPS), YOUNGER: Look(True, 1, SWEEPS)}
    assert watch.observer.comes_first(OWNER)
    assert not watch.observer.comes_first(YOUNGER)


def test_a_process_whose_mark_is_missing_comes_first_if_no_older_one_sweeps(watch):
    watch.marks.looks = {YOUNGER: Look(True, 1, SWEEPS)}
    assert watch.observer.comes_first(OWNER)


def test_the_next_process_comes_first_as_soon_as_the_oldest_one_ends(watch):
    watch.marks.looks = {OLDER: Look(True, 1, SWEEPS)}
    assert not watch.observer.comes_first(OWNER)
    watch.marks.looks = {OLDER: Look(False, 1, SWEEPS)}
    assert watch.observer.comes_first(OWNER)


def test_the_next_process_comes_first_while_the_oldest_one_hangs(watch):
    watch.marks.looks = {OLDER: Look(True, 1, SWEEPS)}
    verdicts = []
    for _ in range(9):
        verdicts.append(watch.observer.comes_first(OWNER))
        watch.now += 1
    assert verdicts == [False] * 8 + [True]
    watch.marks.looks = {OLDER: Look(True, 2, SWEEPS)}
    assert not watch.observer.comes_first(OWNER)


def test_without_the_store_no_process_comes_first(watch):
    watch.marks.away = True
    with pytest.raises(ConnectionError):
        watch.observer.comes_first(OWNER)
