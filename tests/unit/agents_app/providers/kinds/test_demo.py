import json
from typing import Any
from zoneinfo import available_timezones

import jsonschema
import pytest

from agents_app.prompt.history import repair
from agents_app.providers.base import ProviderError
from agents_app.providers.kinds.demo.intents import MAX_INTENTS, Intent, find_intents, supported, zone_of_city
from agents_app.providers.kinds.demo.provider import DemoProvider
from agents_app.providers.kinds.demo.response import decide, describe
from agents_app.providers.kinds.demo.texts import FOOTER
from agents_app.types import Message, ModelRequest
from tests.fakes.streams import Streamed, collect, request_of
from tools_app.registry import tools
from tools_app.types import ToolCall, ToolSpec


def offered(**arguments: str) -> tuple[ToolSpec, ...]:
    """Return tools with one argument each, by name."""
    return tuple(ToolSpec(name, "", {"properties": {argument: {}}}) for name, argument in arguments.items())


FINDER = offered(find_tools="query")
TOOLS = offered(calculator="expression", date_time="timezone", echo="text", web_fetch="url")


def found_intents(text: str) -> list[tuple[str, Any]]:
    return [(intent.tool, *intent.arguments.values()) for intent in find_intents(text)]


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("what is 17*23?", "17*23"),
        ("What's 17 times 23, please?", "17 * 23"),
        ("12 plus 5 minus 3", "12 + 5 - 3"),
        ("(1 + 2) * 3.5 = ?", "(1 + 2) * 3.5"),
        ("compute (what is 3*4)", "3*4"),
        ("2^10", "2 ** 10"),
        ("1,000,000 / 7", "1000000 / 7"),
        ("how much is 15% of 80?", "15 / 100 * 80"),
        ("6x7", "6 * 7"),
        ("6 × 7 ÷ 2", "6 * 7 / 2"),
        ("square root of 16", "sqrt(16)"),
        ("sqrt(2) * pi", "sqrt(2) * pi"),
        ("-3 - -4.", "-3 - -4"),
        ("9 squared divided by 3", "9 ** 2 / 3"),
    ],
)
def test_a_sum_is_found_and_written_as_the_calculator_wants_it(text: str, expression: str) -> None:
    assert found_intents(text) == [("calculator", expression)]


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "I have 3 apples.",
        "call me at 10:30",
        "on 2026-03-01",
        "version 1.2.3",
        "5",
        "-",
        "a - b",
        "3(4)x",
        "I was there a long time ago",
        "once upon a day",
        "007",
        "((((((((",
        "1" * 400 + "+1",
        "",
        "/demo",
    ],
)
def test_what_is_no_sum_and_no_question_of_time_wants_no_tool(text: str) -> None:
    assert found_intents(text) == []


@pytest.mark.parametrize(
    ("text", "zones"),
    [
        ("what time is it in Tokyo?", ["Asia/Tokyo"]),
        ("time in New York and in Paris", ["America/New_York", "Europe/Paris"]),
        ("What's the current time?", ["UTC"]),
        ("what day is it today", ["UTC"]),
        ("time in Europe/Berlin please", ["Europe/Berlin"]),
        ("what time is it in GMT", ["UTC"]),
        ("I live in Tokyo", []),
        ("what time is sunrise in the north of Munich?", ["Europe/Berlin"]),
    ],
)
def test_clocks_are_found_by_city_and_by_zone(text: str, zones: list[str]) -> None:
    assert found_intents(text) == [("date_time", zone) for zone in zones]


def test_several_intents_keep_the_order_of_the_message() -> None:
    text = "what is 17*23 and what time is it in Tokyo, and what does https://example.com/a?b=1. say, and 17*23 again?"
    assert found_intents(text) == [
        ("calculator", "17*23"),
        ("date_time", "Asia/Tokyo"),
        ("web_fetch", "https://example.com/a?b=1"),
    ]


def test_files_are_written_below_the_folders_of_a_session() -> None:
    first, second = find_intents("Write the file files/tour.md, then add a line to files/tour.md.")
    assert (first.tool, first.arguments["path"]) == (second.tool, second.arguments["path"])
    assert second.arguments["content"].startswith(first.arguments["content"])
    assert len(second.arguments["content"].splitlines()) == len(first.arguments["content"].splitlines()) + 1
    assert find_intents("write files/../tour.md") == find_intents("Please write a file") == ()


def test_a_question_has_its_alternatives_as_options() -> None:
    (asked,) = find_intents("Ask me: Berlin or Tokyo?")
    assert (asked.tool, asked.arguments["question"]) == ("ask_user", "Berlin or Tokyo?")
    assert asked.arguments["options"] == ["Berlin", "Tokyo"]
    assert found_intents("ask me: why 2+3?") == [("ask_user", "why 2+3?")]


def test_an_echo_is_taken_whole() -> None:
    assert found_intents("Please echo: 17*23 in Tokyo\nnow") == [("echo", "17*23 in Tokyo\nnow")]
    assert found_intents("what is 2+3 and echo 4+5") == [("calculator", "2+3"), ("echo", "4+5")]


def test_a_message_cannot_make_it_work_hard() -> None:
    for text in ("1+" * 5000, "(" * 10_000, "-" * 10_000, "1 " * 5000, " " * 9_999 + "1", "9**9**9 " * 1000):
        assert len(find_intents(text)) <= MAX_INTENTS


def test_only_tools_that_are_offered_and_know_the_argument_are_called() -> None:
    intents = (
        Intent("echo", {"text": "x"}),
        Intent("calculator", {"expression": "1+1"}),
        Intent("web_fetch", {"url": "u"}),
    )
    assert supported(intents, offered(echo="text", calculator="formula")) == intents[:1]


def test_it_names_a_tool_that_it_may_not_use() -> None:
    decision = decide([Message("user", "what is 17*23?")], offered(echo="text"))
    assert not decision.intents and "`calculator`" in decision.text


@pytest.mark.parametrize("text", ["Hello!", "help", "hi there", "who are you?", "/demo", "/demo nonsense", "tour"])
def test_a_greeting_is_answered_with_what_it_is_and_how_to_get_a_real_model(text: str) -> None:
    answer = decide([Message("user", text)], TOOLS).text
    assert (
        "demo model" in answer
        and "(/tour)" in answer
        and "(/connect-model)" in answer
        and "| --- |" in answer
        and "```" in answer
    )


@pytest.mark.parametrize(
    ("text", "answer"),
    [("/demo table", "Mercury"), ("/demo markdown", "What an answer can contain"), ("hello", "| Ask me |")],
)
def test_a_command_after_a_failed_run_is_understood(text: str, answer: str) -> None:
    """The failed run has no answer, so both messages come as one."""
    history = repair([Message("user", "/demo error"), Message("user", text)])
    decision = decide(history, TOOLS)
    assert answer in decision.text and not decision.fails


@pytest.mark.parametrize(
    "text",
    [
        "show me what you can do",
        "Show me!",
        "what can you show me?",
        "demo",
        "a demo, please",
        "the tour",
        "show me an approval",
    ]
    + ["plan a trip", "what does this cost?", "how do I connect telegram?"],
)
def test_natural_questions_are_answered_with_the_tour(text: str) -> None:
    assert "(/tour)" in decide([Message("user", text)], TOOLS).text


def test_the_footer_comes_once_a_chat() -> None:
    first = decide([Message("user", "what is 17*23?")], offered(echo="text")).text
    assert first.endswith(FOOTER)
    again = [Message("user", "what is 17*23?"), Message("assistant", first), Message("user", "what is 17*23?")]
    assert decide(again, offered(echo="text")).text == first.removesuffix(FOOTER)


def test_it_reports_what_it_does_not_understand() -> None:
    answer = decide([Message("user", "Write me a poem.")], TOOLS).text
    assert "demo model" in answer and "(/tour)" in answer and "(/connect-model)" in answer


def test_it_answers_from_the_results_of_its_tools() -> None:
    calls = (ToolCall("a", "calculator", '{"expression": "17*23"}'), ToolCall("b", "web_fetch", '{"url": "http://x"}'))
    history = [
        Message("user", "earlier 1+1"),
        Message("assistant", "2"),
        Message("user", "17*23 and http://x"),
        Message("assistant", "", calls),
        Message("tool", '{"expression": "17*23", "result": "391"}', tool_call_id="a"),
        Message("tool", "[Failed] The address is not public.", tool_call_id="b"),
    ]
    decision = decide(history, TOOLS)
    assert not decision.intents
    assert "**391**" in decision.text and "failed. [Failed] The address is not public." in decision.text


@pytest.mark.parametrize(
    ("tool", "content", "expected"),
    [
        (
            "date_time",
            '{"timezone": "Asia/Tokyo", "time": "21:05:00", "date": "2026-03-01", "weekday": "Sunday"}',
            "In Tokyo",
        ),
        ("echo", '{"text": "hi"}', "> hi"),
        (
            "web_fetch",
            '{"url": "http://x", "title": "T [1]", "text": "Once\\n\\nupon"}',
            "[T (1)](http://x) starts with",
        ),
        ("web_fetch", '{"url": "http://x", "text": ""}', "nothing"),
        ("other", '["a"]', '"a"'),
        ("other", "plain", "plain"),
        ("calculator", "{}", "calculator"),
    ],
)
def test_results_of_every_tool_are_described(tool: str, content: str, expected: str) -> None:
    assert expected in describe(tool, "{}", content)


async def test_it_streams_word_by_word_and_calls_tools_in_parallel() -> None:
    request = request_of("what is 17*23 and what time is it in Tokyo?", model="demo-instant", tools=TOOLS)
    streamed = await collect(DemoProvider(), request)
    assert len(streamed.texts) > 3 and streamed.response.finish_reason == "tool_calls"
    assert [(call.name, call.arguments) for call in streamed.response.tool_calls] == [
        ("calculator", '{"expression": "17*23"}'),
        ("date_time", '{"timezone": "Asia/Tokyo"}'),
    ]


async def test_a_failure_on_demand_comes_after_some_text() -> None:
    streamed = Streamed()
    with pytest.raises(ProviderError) as caught:
        await collect(DemoProvider(default_model="demo-instant"), request_of("/demo error"), streamed)
    assert not caught.value.retryable and streamed.texts and not streamed.responses


async def test_without_any_message_it_introduces_itself() -> None:
    streamed = await collect(DemoProvider(default_model="demo-instant"), ModelRequest("", ()))
    assert "demo model" in streamed.response.text


@pytest.mark.parametrize("text", ["12 plus 5^2", "sqrt(2) * pi", "time in Tokyo", "echo x", "see https://example.com/"])
def test_what_it_asks_for_fits_the_built_in_tools(text: str) -> None:
    (intent,) = supported(find_intents(text), [tool.spec for tool in tools])
    jsonschema.validate(intent.arguments, tools.get(intent.tool).spec.parameters)


@pytest.mark.parametrize(
    "text", ["15% of 80", "9 squared divided by 3", "square root of 16", "6 × 7 ÷ 2", "1,000 - -4"]
)
def test_its_sums_are_sums_for_the_calculator(text: str) -> None:
    (intent,) = find_intents(text)
    assert "result" in tools.get("calculator").run(intent.arguments, None)  # type: ignore[arg-type]


def test_every_city_has_a_real_time_zone() -> None:
    assert len(zone_of_city()) >= 60 and set(zone_of_city().values()) <= available_timezones()
    assert {"tokyo", "new york", "buenos aires", "mumbai"} <= zone_of_city().keys()


def test_the_content_of_attached_files_asks_for_nothing() -> None:
    attached = "[Attached file a.txt (text/plain); to be cited as [01a20527-3171-7747-873a-1]]\n<<<\n6 * 7\n>>>"
    decision = decide([Message("user", f"What is 2 + 3?\n\n{attached}")], TOOLS)
    assert [intent.arguments for intent in decision.intents] == [{"expression": "2 + 3"}]


def test_a_tool_that_is_not_listed_is_looked_for_first() -> None:
    asked = [Message("user", "echo good morning")]
    first = decide(asked, FINDER)
    assert first.intents == (Intent("find_tools", {"query": "echo"}),)
    searched = [
        *asked,
        Message("assistant", first.text, (ToolCall("1", "find_tools", '{"query": "echo"}'),)),
        Message("tool", '{"tools": [], "total": 0}', tool_call_id="1"),
    ]
    assert decide(searched, (*FINDER, *TOOLS)).intents == (Intent("echo", {"text": "good morning"}),)
    assert "not allowed to use" in decide(searched, FINDER).text


TEAM = (
    *TOOLS,
    ToolSpec("launch_workstream", "", {"properties": {"id": {}, "name": {}, "instruction": {}}}),
    ToolSpec("wait_workstreams", "", {"properties": {}}),
)


def report(workstream: str, state: str, text: str) -> Message:
    header = f"[Workstream {workstream} (01a224e7-0000-7000-8000-000000000001) {state}]"
    return Message("user", f"{header}\n[tool output 0123456789ab]\n{text}\n[end of tool output 0123456789ab]")


def test_an_agent_of_a_team_launches_a_workstream_for_each_part_waits_and_reports() -> None:
    messages = [Message("user", "What is 17*23 and what time is it in Tokyo?")]
    launching = decide(messages, TEAM)
    given = [intent.arguments for intent in launching.intents]
    assert [intent.tool for intent in launching.intents] == ["launch_workstream"] * 2
    assert [one["instruction"] for one in given] == ["What is 17*23?", "What time is it in Asia/Tokyo?"]
    calls = tuple(ToolCall(f"c{n}", "launch_workstream", json.dumps(one)) for n, one in enumerate(given))
    messages += [Message("assistant", launching.text, calls)]
    messages += [Message("tool", '{"launch_id": "1"}', tool_call_id=call.id) for call in calls]
    assert [intent.tool for intent in decide(messages, TEAM).intents] == ["wait_workstreams"]
    # The parts do themselves what they were given.
    parts = [decide([Message("user", one["instruction"])], TEAM) for one in given]
    assert [[intent.tool for intent in part.intents] for part in parts] == [["calculator"], ["date_time"]]
    messages += [report("part_1", "completed", f"Here is what I found:\n\n- `17*23` is **391**.{FOOTER}")]
    assert [intent.tool for intent in decide(messages, TEAM).intents] == ["wait_workstreams"]
    messages += [report("part_2", "ran out of time", "The clock is late.")]
    answer = decide(repair(messages), TEAM)
    assert not answer.intents and answer.text.startswith(
        "Here is what my team found:\n\n- *Part 1, arithmetic:* `17*23` is **391**.\n"
        "- *Part 2, clock* ran out of time. The clock is late.\n"
    )
    messages += [Message("assistant", answer.text), Message("user", "What is 1+1?")]
    assert [intent.tool for intent in decide(messages, TEAM).intents] == ["calculator"]


def test_a_launch_that_is_refused_is_not_waited_for() -> None:
    call = ToolCall("c", "launch_workstream", '{"id": "part_1", "name": "x", "instruction": "x"}')
    refused = Message("tool", "[Failed] You may not.", tool_call_id="c")
    decision = decide([Message("user", "2*3 and 4*5"), Message("assistant", "", (call,)), refused], TEAM)
    assert not decision.intents and "You may not." in decision.text
