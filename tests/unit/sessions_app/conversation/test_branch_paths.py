"""Paths through branches, and the versions of a message."""

from hypothesis import given
from hypothesis import strategies as st

from sessions_app.conversation.branch_paths import (
    END,
    BranchView,
    first_difference,
    has_run,
    origin_of,
    path_to,
    versions_of,
)

# 0: runs 0, 1, 2. Branch 1 replaces run 1 by run 3; branch 2 replaces run 4 of branch 1 by run 5; branch 3 run 1 by 6.
BRANCHES = {1: BranchView(1, 0, 1, 3), 2: BranchView(2, 1, 4, 5), 3: BranchView(3, 0, 1, 6)}
RUNS = [(0, 0), (0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (3, 6)]


def runs_on(number: int) -> list[int]:
    return [ordinal for branch, ordinal in RUNS if has_run(path_to(BRANCHES, number), branch, ordinal)]


def test_a_path_has_the_runs_of_its_branch_and_those_before_it():
    assert [runs_on(number) for number in range(4)] == [[0, 1, 2], [0, 3, 4], [0, 3, 5], [0, 6]]


def test_alternatives_have_one_origin():
    assert origin_of(BRANCHES, 0, 1) == origin_of(BRANCHES, 1, 3) == origin_of(BRANCHES, 3, 6) == (0, 1)
    assert origin_of(BRANCHES, 1, 4) == (1, 4)


def test_versions_lead_to_the_newest_branch_with_the_neighbour():
    first, second, third = (versions_of(BRANCHES, *run) for run in ((0, 1), (1, 3), (3, 6)))
    assert [(one.number, one.count, one.place) for one in (first, second, third)] == [(1, 3, 1), (2, 3, 1), (3, 3, 1)]
    assert (first.earlier, first.later) == (None, 2), "branch 2 has the run 3, too, and is newer"
    assert (second.earlier, second.later) == (0, 3)
    assert (third.earlier, third.later) == (2, None)
    assert versions_of(BRANCHES, 0, 0) is None and versions_of({}, 0, 1) is None


def test_the_first_difference_of_two_paths():
    assert first_difference(RUNS, path_to(BRANCHES, 1), path_to(BRANCHES, 2)) == 4
    assert first_difference(RUNS, path_to(BRANCHES, 0), path_to(BRANCHES, 0)) == END


@given(st.data())
def test_a_new_branch_shares_what_is_before_it_and_nothing_else(data):
    """Check any sequence of messages, replacements and selections: each path is that of its parent up to its origin."""
    branches, runs, active = {}, [(0, 0)], 0
    for ordinal in range(1, data.draw(st.integers(2, 12))):
        on_path = [run for run in runs if has_run(path_to(branches, active), *run)]
        if data.draw(st.booleans()):
            replaced = data.draw(st.sampled_from(on_path))
            number = len(branches) + 1
            branches[number] = BranchView(number, *origin_of(branches, *replaced), ordinal)
            runs.append((number, ordinal))
            now = [run for run in runs if has_run(path_to(branches, number), *run)]
            assert now == [run for run in on_path if run[1] < branches[number].replaces] + [(number, ordinal)]
            shown = versions_of(branches, number, ordinal)
            assert shown and shown.number == shown.count > 1
            assert shown.earlier is not None and not has_run(path_to(branches, shown.earlier), number, ordinal)
            active = number
        else:
            runs.append((active, ordinal))
        active = data.draw(st.sampled_from([active, *range(len(branches) + 1)]))
