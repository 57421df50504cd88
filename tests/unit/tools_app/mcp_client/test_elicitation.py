"""Questions of servers: what a person reads, and what the server gets for a reply."""

from typing import Any

import pytest

from tools_app.mcp_client import elicitation
from tools_app.mcp_client.elicitation import Refused
from tools_app.mcp_client.form_fields import Misfit


def form(message: str = "Tell me.", required: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "required": list(required)}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def link(url: str) -> dict[str, Any]:
    return {"method": "elicitation/create", "params": {"mode": "url", "message": "Please.", "url": url}}


def answer(request: dict[str, Any], reply: str | None) -> Any:
    return elicitation.responses_of({"a": request}, reply)["a"]


def text_of(request: dict[str, Any]) -> str:
    return elicitation.questions_of("shop", {"a": request})[0].text


TEXT = {"type": "string"}
TITLED = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]


def test_a_person_reads_which_server_asks_and_that_its_words_come_from_outside() -> None:
    text = text_of(form("Log in [here](https://evil.example) \u202enow.\nKomand: “send it”", name=TEXT))
    assert text.startswith(
        "The MCP server shop asks, in its own words, which come from outside: “Log in [here] (https:"
    )
    assert '\\u202enow. Komand: "send it"”' in text and "Never give it a password" in text


@pytest.mark.parametrize(
    ("field", "reply", "value"),
    [
        (TEXT, "Ada Lovelace", "Ada Lovelace"),
        ({"type": "integer"}, "1", 1),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "boolean"}, "no", False),
        ({"type": "boolean"}, "1", True),
        ({"type": "string", "enum": ["a", "b"]}, "2", "b"),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["Ay", "Bee"]}, "bee", "b"),
        ({"type": "string", "oneOf": TITLED}, "Green", "g"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, "a, b", ["a", "b"]),
        ({"type": "array", "items": {"anyOf": TITLED}}, "Red", ["r"]),
        ({"type": "string", "format": "email"}, "a@b.example", "a@b.example"),
        ({"type": "string", "format": "date"}, "2026-01-31", "2026-01-31"),
        ({"type": "string", "default": "John"}, "-", "John"),
    ],
)
def test_a_reply_becomes_the_value_of_the_field(field: dict[str, Any], reply: str, value: Any) -> None:
    assert answer(form(value=field), reply) == {"action": "accept", "content": {"value": value}}


@pytest.mark.parametrize(
    ("field", "reply"),
    [
        ({"type": "integer"}, "1.5"),
        ({"type": "number", "minimum": 3}, "2"),
        ({"type": "number"}, "nan"),
        ({"type": "string", "maxLength": 2}, "abc"),
        ({"type": "string", "format": "email"}, "me"),
        ({"type": "string", "format": "date-time"}, "tomorrow"),
        ({"type": "string", "enum": ["a", "b"]}, "c"),
        ({"type": "boolean"}, "perhaps"),
        ({"type": "array", "minItems": 2, "items": {"enum": ["a", "b"]}}, "a"),
        (TEXT, "-"),
    ],
)
def test_a_reply_that_does_not_fit_is_asked_for_again(field: dict[str, Any], reply: str) -> None:
    with pytest.raises(Misfit):
        answer(form(required=("value",), value=field), reply)


def test_several_fields_take_a_line_each_and_an_optional_one_is_left_out() -> None:
    request = form(required=("name",), name=TEXT, age={"type": "integer"})
    assert answer(request, "Ada\n-") == {"action": "accept", "content": {"name": "Ada"}}
    with pytest.raises(Misfit, match="2 lines"):
        answer(request, "Ada")


@pytest.mark.parametrize("reply", ["Decline", "decline", "/decline"])
def test_a_refusal_and_no_answer_are_told_to_the_server(reply: str) -> None:
    both = {"a": form(name=TEXT), "b": form(age=TEXT)}
    assert elicitation.responses_of(both, reply) == {"a": {"action": "decline"}, "b": {"action": "decline"}}
    assert elicitation.responses_of(both, None) == {"a": {"action": "cancel"}, "b": {"action": "cancel"}}
    one = elicitation.responses_of(both, f"Ada\n{reply}")
    assert (one["a"]["action"], one["b"]["action"]) == ("accept", "decline")


def test_the_option_to_decline_has_a_number_behind_those_of_the_field() -> None:
    request = form(size={"type": "string", "enum": ["s", "m"]})
    [question] = elicitation.questions_of("shop", {"a": request})
    assert question.labels == ("s", "m", "Decline")
    assert answer(request, "3") == {"action": "decline"}
    assert answer(form(), "2") == {"action": "decline"} and answer(form(), "1")["action"] == "accept"


def test_a_link_names_its_host() -> None:
    [question] = elicitation.questions_of("shop", {"a": link("https://pay.example/x?y")})
    assert "a page of pay.example." in question.text and "https://pay.example/x?y" in question.text
    assert answer(link("https://pay.example/"), "I have opened it") == {"action": "accept"}
    assert answer(link("https://pay.example/"), "2") == {"action": "decline"}


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "https://a@evil.example/",
        "https://аpple.com/",
        "https://x.example/ y",
        "file:///etc/passwd",
        "x",
    ],
)
def test_other_links_are_refused(url: str) -> None:
    with pytest.raises(Refused):
        text_of(link(url))


@pytest.mark.parametrize(
    "field",
    [
        {"type": "object", "properties": {}},
        {"type": "array", "items": TEXT},
        {"type": "null"},
        {},
        "text",
        {"type": "string", "enum": [1, 2]},
        {"type": "string", "enum": ["a", "a"]},
        {"type": "string", "enum": [str(number) for number in range(10)]},
    ],
)
def test_other_fields_are_refused(field: Any) -> None:
    with pytest.raises(Refused):
        text_of(form(value=field))


def test_a_round_has_few_requests_and_questions() -> None:
    assert len(elicitation.questions_of("shop", {"a": form(a=TEXT, b=TEXT), "b": form(c=TEXT), "c": form()})) == 4
    with pytest.raises(Refused, match="9 questions"):
        elicitation.questions_of("shop", {"a": form(**{str(number): TEXT for number in range(9)})})
    with pytest.raises(Refused, match="5 requests"):
        elicitation.questions_of("shop", {str(number): form() for number in range(5)})
    with pytest.raises(Refused, match="KB"):
        text_of(form("x" * 70_000, a=TEXT))


def test_what_is_no_elicitation_is_refused() -> None:
    with pytest.raises(Refused, match="sampling/createMessage"):
        text_of({"method": "sampling/createMessage", "params": {}})
