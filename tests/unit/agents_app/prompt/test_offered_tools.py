"""The tools that model calls list, and those that they list after a search."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agents_app.prompt import offered_tools, tokens
from agents_app.prompt.offered_tools import OfferedTools, choose, tokens_of, used_names
from agents_app.types import Message
from tools_app import profiles
from tools_app.profiles import FIND_TOOLS
from tools_app.registry import tools
from tools_app.types import ExecutionStatus, ExecutionView, ToolCall, ToolSpec

PLENTY = 1_000_000


def remote(number: int, **given: Any) -> ToolSpec:
    return ToolSpec(f"mcp__hub__do_{number}", "Does something else. " * 5, {"type": "object"}, server="hub", **given)


BUILT_IN = tuple(tool.spec for tool in tools if profiles.is_offered("all", tool.spec.name))
HIDDEN = {  # of the profile `chat`
    "ask_form",
    "batch",
    "echo",
    "memory_forget",
    "read_artifact",
    "report_progress",
    "schedule",
    "update_plan",
    "write_artifact",
}
MANY = (*BUILT_IN, *(remote(number) for number in range(200)))


def names(specs: tuple[ToolSpec, ...]) -> list[str]:
    return [spec.name for spec in specs]


def offered(permitted: tuple[ToolSpec, ...], profile: str = "all", budget_tokens: int = PLENTY) -> OfferedTools:
    return choose(permitted, profile=profile, budget_tokens=budget_tokens)


def test_all_tools_are_listed_if_there_is_room() -> None:
    every = offered(BUILT_IN)
    assert {*names(every.listed)} == {*names(BUILT_IN)} - {FIND_TOOLS} and every.hidden == ()
    assert offered(BUILT_IN, "no such profile") == every


def test_a_profile_lists_its_tools_and_those_of_servers() -> None:
    chat = offered((*BUILT_IN, remote(1)), "chat")
    assert {"web_fetch", "mcp__hub__do_1", FIND_TOOLS} < {*names(chat.listed)}
    assert {*names(chat.hidden)} == HIDDEN
    finder = next(spec for spec in chat.listed if spec.name == FIND_TOOLS)
    assert finder.description.endswith(f"Among them: {', '.join(sorted(HIDDEN))}.")
    assert "read_artifact" in names(offered(BUILT_IN, "files").listed)


@pytest.mark.parametrize("profile", ["all", "chat"])
def test_a_large_catalogue_leaves_the_core(profile: str) -> None:
    style = ToolSpec("skill__style", "", {}, prompt_line="- skill__style: How to write.")
    cut = offered((*MANY, style), profile, 2000)
    assert {"web_fetch", "ask_user", "skill__style", FIND_TOOLS} < {*names(cut.listed)}
    assert {"echo", "mcp__hub__do_7"} < {*names(cut.hidden)}
    assert len(cut.listed) + len(cut.hidden) == len(cut.all) == len(MANY) + 1
    finder = next(spec for spec in cut.listed if spec.name == FIND_TOOLS)
    assert finder.description.endswith("; tools of hub.")
    assert sum(map(tokens_of, cut.listed)) < 1000


def test_nothing_is_hidden_from_an_agent_that_cannot_search() -> None:
    chosen = tuple(spec for spec in MANY if spec.name != FIND_TOOLS)
    assert offered(chosen, "chat", 0) == OfferedTools(chosen)


def test_the_hint_names_some_of_many() -> None:
    skills = tuple(ToolSpec(f"skill__{number}", "d" * 99, {}) for number in range(20))
    (finder,) = (spec for spec in offered((*BUILT_IN, *skills), "all", 500).listed if spec.name == FIND_TOOLS)
    assert finder.description.endswith(f"and {20 + len(HIDDEN) - offered_tools._MOST_NAMES} more.")


def execution(tool: str, output: str | None, status: ExecutionStatus = ExecutionStatus.COMPLETED) -> ExecutionView:
    return cast(ExecutionView, SimpleNamespace(tool=tool, output=output, status=status))


def test_found_and_called_tools_come_last_in_their_order() -> None:
    choice = offered(MANY, "chat", 2000)
    found = json.dumps({"tools": [{"name": "mcp__hub__do_9"}, {"name": "echo"}], "total": 2})
    history = [Message("assistant", "", (ToolCall("1", "mcp__hub__do_3", "{}"), ToolCall("2", "web_fetch", "{}")))]
    used = used_names(history, [execution(FIND_TOOLS, found), execution("echo", "x"), execution("gone", None)])
    listed = choice.listed_with(used)
    assert listed[: len(choice.listed)] == choice.listed
    assert names(listed[len(choice.listed) :]) == ["mcp__hub__do_3", "mcp__hub__do_9", "echo"]


@pytest.mark.parametrize("output", [None, "", "[1]", '{"tools": [1]}', '{"tools": [{"name": "ec', "7"])
def test_a_search_without_a_readable_result_finds_nothing(output: str | None) -> None:
    assert used_names([], [execution(FIND_TOOLS, output)]) == []
    failed = execution(FIND_TOOLS, '{"tools": [{"name": "echo"}]}', ExecutionStatus.FAILED)
    assert used_names([], [failed]) == []


def test_the_estimate_counts_what_is_sent() -> None:
    short, long = ToolSpec("a", "", {}), ToolSpec("a", "word " * 400, {"type": "object"})
    assert 200 < tokens_of(long, "o200k") - tokens_of(short, "o200k") < 600


def test_the_tokens_of_a_tool_are_counted_once_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    count = tokens.count

    def noted(text: str, family: str = "general") -> int:
        counted.append(family)
        return count(text, family)

    monkeypatch.setattr(tokens, "count", noted)
    monkeypatch.setattr(offered_tools, "_counted", {})
    tool = remote(1)
    assert [tokens_of(tool), tokens_of(tool), tokens_of(remote(1))] == [tokens_of(tool)] * 3
    assert tokens_of(replace(tool, description="Does.")) < tokens_of(tool, "claude")
    assert counted == ["general", "general", "claude"]
