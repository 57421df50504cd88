"""Request bodies of the agent-message protocol: accepted values and errors."""

from typing import Any

import pytest

from audit_app.kernel.errors import InvalidInput
from sessions_app.surfaces.agent_messages import requests
from sessions_app.surfaces.agent_messages.artifact_names import own_path, split_storage_path, storage_path
from sessions_app.surfaces.base import bodies

START = {"interaction": "default", "data": {"task": "go"}}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"task": " go "}, "go"),
        ({"user_prompt": "go", "empty": ""}, "go"),
        ({"anything": "go"}, "go"),
        ({"task": "go", "tone": "dry"}, 'go\n\n{\n  "tone": "dry"\n}'),
        ({"number": 7}, '{\n  "number": 7\n}'),
        ({}, ""),
    ],
)
def test_the_task_is_found_in_the_data(data: dict[str, Any], expected: str) -> None:
    assert requests.text_of(data) == expected


def test_a_start_repeats_fields_of_its_request() -> None:
    wanted = requests.read_start(
        {**START, "tags": ["a"], "config": {"model_options": {"temperature": 1}}, "title": "T"}
    )
    assert (wanted.text, wanted.is_interactive, wanted.title) == ("go", False, "T")
    assert wanted.shown == {"data": {"task": "go"}, "tags": ["a"], "config": {"model_options": {"temperature": 1}}}
    assert requests.options_of(wanted.shown).temperature == 1.0


def test_a_start_chooses_model_and_rounds() -> None:
    wanted = requests.read_start({**START, "max_iterations": 3, "config": {"model": "big"}})
    options = requests.options_of(wanted.shown)
    assert (options.model, options.max_tool_rounds) == ("big", 3)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"colour": "red"}, "unknown_key"),
        ({"interaction": 7}, "invalid_value"),
        ({"interaction": " "}, "interaction_required"),
        ({"interactive": "yes"}, "invalid_value"),
        ({"max_iterations": True}, "invalid_value"),
        ({"data": None}, "text_required"),
        ({"notify_endpoints": ["https://example.org"]}, "unsupported_option"),
        ({"initial_tool_calls": [{"id": "1", "tool": "echo"}]}, "unsupported_option"),
        ({"user_channels": [{"type": "email", "to_email": "a@b.c"}]}, "unsupported_option"),
        ({"tool_approval_mode": "yolo"}, "invalid_value"),
        ({"config": {"model_options": {"temperature": 3}}}, "invalid_input"),
        ({"title": "\ud800"}, "invalid_text"),
        ({"max_iterations": 0}, "invalid_value"),
        ({"max_iterations": 1.5}, "invalid_value"),
        ({"config": {"model": 7}}, "invalid_value"),
        ({"config": {"effort": "high"}}, "unsupported_option"),
        ({"config": {"fast_mode": True}}, "unsupported_option"),
        ({"checkpoint": {"max_tokens": 1}}, "unsupported_option"),
        ({"checkpoint_tokens": 100}, "unsupported_option"),
        ({"search_scope": "all"}, "unsupported_option"),
        ({"initial_skills": ["x"]}, "unsupported_option"),
    ],
)
def test_unsupported_requests_are_refused(change: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        requests.read_start({**START, **change})
    assert refused.value.code == code


def test_an_interactive_run_may_wait_for_its_first_message() -> None:
    assert requests.read_start({"interaction": "default", "interactive": True}).text == ""


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ({}, []),
        ({"excluded_tools": ["echo", "no good name"]}, ["echo"]),
        ({"tool_names": ["-echo"]}, ["echo"]),
        ({"tool_names": ["+echo"]}, []),
        ({"tool_names": ["echo"]}, ["calculator", "python"]),
        ({"tool_names": ["echo", "+python"]}, ["calculator"]),
        ({"disabled_mcp_collections": ["my server"]}, ["mcp__my_server__*"]),
    ],
)
def test_requests_can_only_remove_tools(shown: dict[str, Any], expected: list[str]) -> None:
    assert requests.denied_tools(shown, ["calculator", "echo", "python"]) == expected


def test_user_input_has_the_id_of_the_request_that_it_answers() -> None:
    sent = requests.read_user_input(
        {
            "message": "allow_once",
            "client_message_id": "m-1",
            "metadata": {"request_input_response": {"request_id": "r"}, "tool_approval_response": {"decision": "deny"}},
        }
    )
    assert (sent.text, sent.ack, sent.request_id, sent.decision) == ("allow_once", "m-1", "r", "deny")


@pytest.mark.parametrize("body", [None, [], {}, {"message": " "}, {"message": "x", "metadata": []}])
def test_user_input_without_text_is_refused(body: Any) -> None:
    with pytest.raises(InvalidInput):
        requests.read_user_input(body)


@pytest.mark.parametrize("text", ["x", "-1", "nan", "inf", "1e99"])
def test_a_since_is_a_time(text: str) -> None:
    with pytest.raises(InvalidInput):
        requests.read_since(text)


def test_a_since_may_lie_between_two_milliseconds() -> None:
    assert (requests.read_since(""), requests.read_since("1795253425107.25")) == (0.0, 1795253425107.25)


def test_nulls_are_taken_out_of_texts_at_any_depth() -> None:
    assert bodies.clean({"a\0": ["b\0", {"c": "\0"}]}) == {"a": ["b", {"c": ""}]}


def test_paths_are_known_with_and_without_their_folder() -> None:
    assert own_path("r1", "agents/r1/files/a.txt") == own_path("r1", "/files/a.txt") == "files/a.txt"
    assert split_storage_path(storage_path("r1", "files/a.txt")) == ("r1", "files/a.txt")
    assert split_storage_path("store/objects/7") == split_storage_path("agents/r1") == ("", "")
