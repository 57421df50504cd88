"""Calls of one step that need nobody are one line; others stay cards of their own."""

from typing import Any
from uuid import UUID

from sessions_app.surfaces.chat.call_groups import CallGroup, with_call_groups
from sessions_app.surfaces.chat.tool_cards import CallState, ToolCard


def call(number: int, step: int = 0, tool: str = "echo", state: str = "done", seconds: float | None = 1.0) -> ToolCard:
    key = UUID(int=number)
    return ToolCard(key, step, tool, {}, CallState(key, state, state, seconds))


def test_neighbours_of_one_step_are_a_group() -> None:
    parts = ["text", call(1), call(2, tool="date_time", seconds=1.2), call(3), "more", call(4, step=1)]
    first, group, second, single = with_call_groups(parts)
    assert (first, second, single) == ("text", "more", parts[-1])
    assert isinstance(group, CallGroup) and len(group.calls) == 3
    assert (group.id, group.step, group.names, group.took) == (UUID(int=1), 0, "echo, date_time", "1.2 s")


def test_steps_are_groups_of_their_own() -> None:
    found = with_call_groups([call(1), call(2), call(3, step=1), call(4, step=1)])
    assert [part.step for part in found] == [0, 1]


def test_calls_that_a_person_has_to_see_are_in_no_group() -> None:
    failed, written = call(2, state="failed"), call(3, tool="write_artifact")
    asked = ToolCard(UUID(int=4), 0, "ask_user", {"question": "Which?"}, CallState(UUID(int=4), "running", "running"))
    parts: list[Any] = [call(1), failed, written, asked, call(5)]
    assert list(with_call_groups(parts)) == parts


def test_a_group_has_no_time_while_a_call_runs() -> None:
    [group] = with_call_groups([call(1), call(2, state="running", seconds=None)])
    assert group.took == ""
