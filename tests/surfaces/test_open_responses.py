"""The cases of the specification Open Responses (2026-04-24), written from its text, over HTTP and WebSockets.

Bodies and frames are sent as they are, without a client library that would repair them.
"""

import json
from typing import Any

import httpx2
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.support.live_server import LiveKomand

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
}
# The required fields of ResponseResource, with the types of their values.
NOTHING = type(None)
FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("id", "object", "status", "model", "service_tier", "truncation"), (str,)),
    **dict.fromkeys(("created_at", "top_logprobs"), (int,)),
    **dict.fromkeys(("completed_at", "max_output_tokens", "max_tool_calls"), (int, NOTHING)),
    **dict.fromkeys(("output", "tools"), (list,)),
    **dict.fromkeys(("error", "incomplete_details", "reasoning", "usage"), (dict, NOTHING)),
    **dict.fromkeys(("text", "metadata"), (dict,)),
    **dict.fromkeys(("top_p", "temperature", "presence_penalty", "frequency_penalty"), (int, float)),
    **dict.fromkeys(("parallel_tool_calls", "store", "background"), (bool,)),
    **dict.fromkeys(("previous_response_id", "instructions", "safety_identifier", "prompt_cache_key"), (str, NOTHING)),
    "tool_choice": (str, dict),
}
USAGE = {"input_tokens", "output_tokens", "total_tokens", "input_tokens_details", "output_tokens_details"}
ENDS = ("response.completed", "response.failed", "response.incomplete", "error")


class Api:
    def __init__(self, komand: LiveKomand) -> None:
        self._headers = {"Authorization": f"Bearer {komand.api_key}"}
        self._url = f"{komand.url}/v1/responses"

    def post(self, path: str = "", **body: Any) -> Any:
        return httpx2.post(self._url + path, json=body, headers=self._headers, timeout=60)

    def connect(self) -> Any:
        return connect(self._url.replace("http", "ws", 1), additional_headers=self._headers)


@pytest.fixture(scope="module")
def api(live_komand: LiveKomand) -> Api:
    return Api(live_komand)


def said(text: str, role: str = "user", **more: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": text, **more}


def checked(response: dict[str, Any], *, status: str = "completed") -> dict[str, Any]:
    """Return a response that has ended. Check that it is a ResponseResource with output."""
    wrong = {name: response.get(name) for name, types in FIELDS.items() if not isinstance(response[name], types)}
    assert not wrong and response["object"] == "response"
    assert response["status"] == status and response["output"] and set(response["usage"]) >= USAGE
    for item in response["output"]:
        assert item["id"] and item["status"] in ("completed", "in_progress", "incomplete")
    return response


def in_order(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the response of the last event. Check the order and the fields of all."""
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] in ENDS
    numbers = [event["sequence_number"] for event in events]
    assert numbers == sorted(set(numbers))
    text, opened = "", set[str]()
    for event in events:
        if event["type"] == "response.output_item.added":
            opened.add(event["item"]["id"])
        elif event["type"] == "response.output_text.delta":
            assert event["item_id"] in opened
            text += event["delta"]
        elif event["type"] == "response.output_text.done":
            assert event["text"] == text
            text = ""
        elif event["type"] == "response.output_item.done":
            opened.remove(event["item"]["id"])
    assert not opened
    found: dict[str, Any] = events[-1]["response"]
    return found


def turn(socket: ClientConnection, **request: Any) -> list[dict[str, Any]]:
    """Send a request over a WebSocket and return its events."""
    socket.send(json.dumps({"type": "response.create", "model": "default", **request}))
    events: list[dict[str, Any]] = []
    while not events or events[-1]["type"] not in ENDS:
        events.append(json.loads(socket.recv(timeout=60)))
    return events


def failure(events: list[dict[str, Any]]) -> str:
    """Return the code of a turn that failed. Check the form of its only frame."""
    [event] = events
    assert set(event) == {"type", "status", "error"} and 400 <= event["status"] < 600
    assert event["error"]["message"]
    return str(event["error"]["code"])


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([said("Say hello in exactly 3 words.")], id="a text"),
        pytest.param(
            [
                said("I look at the number.", "assistant", phase="commentary"),
                said("It is four.", "assistant", phase="final_answer"),
                said("Repeat only the number."),
            ],
            id="phases of the assistant",
        ),
        pytest.param([said("You are a pirate.", "system"), said("Say hello.")], id="a system prompt"),
        pytest.param(
            [said("My name is Alice."), said("Hello Alice!", "assistant"), said("What is my name?")], id="several turns"
        ),
        pytest.param(
            [
                {
                    "type": "message",
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "What do you see?"},
                        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
                    ],
                }
            ],
            id="an image",
        ),
    ],
)
def test_input_is_answered(api: Api, messages: list[Any]) -> None:
    answer = api.post(model="default", input=messages)
    assert answer.status_code == 200
    assert checked(answer.json())["output"][-1]["type"] == "message"


def test_a_stream_is_one_response(api: Api) -> None:
    answer = api.post(model="default", input=[said("Count from 1 to 5.")], stream=True)
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    checked(in_order(events))


def test_a_tool_of_the_client_is_called(api: Api) -> None:
    ask = said('[[tool=get_weather args={"location":"San Francisco"}]]')
    output = checked(api.post(model="default", input=[ask], tools=[WEATHER]).json())["output"]
    assert [item["type"] for item in output] == ["function_call"]


def test_a_conversation_is_compacted(api: Api) -> None:
    messages = [said("We launch on Tuesday."), said("Understood: Tuesday.", "assistant")]
    answer = api.post("/compact", model="default", input=messages, prompt_cache_key="k")
    compacted = answer.json()
    assert answer.status_code == 200 and compacted["object"] == "response.compaction"
    assert {"id", "created_at", "usage"} <= set(compacted)
    assert "compaction" in [item["type"] for item in compacted["output"]]


def test_a_compaction_names_its_model(api: Api) -> None:
    assert api.post("/compact", input=[said("Compact this.")]).status_code == 400


def test_a_connection_answers_in_turn(api: Api) -> None:
    with api.connect() as socket:
        checked(in_order(turn(socket, input=[said("Count from 1 to 3.")])))
        for text in ("first", "second"):
            checked(in_order(turn(socket, store=False, input=f"Reply with exactly: {text}")))


def test_a_connection_continues_what_is_not_stored(api: Api) -> None:
    with api.connect() as socket:
        first = checked(in_order(turn(socket, store=False, input="Remember the code word: cobalt.")))
        asked = {"store": False, "previous_response_id": first["id"]}
        second = checked(in_order(turn(socket, **asked, input="What is the code word?")))
        assert second["previous_response_id"] == first["id"] and not second["store"]
    with api.connect() as socket:
        again = {"store": False, "previous_response_id": second["id"]}
        assert failure(turn(socket, **again, input="And after I came back?")) == "previous_response_not_found"
        checked(in_order(turn(socket, store=False, input=[said("Start anew.")])))


def test_a_response_that_is_unknown_cannot_be_continued(api: Api) -> None:
    with api.connect() as socket:
        asked = {"store": False, "previous_response_id": "resp_missing"}
        assert failure(turn(socket, **asked, input="Go on.")) == "previous_response_not_found"


def test_a_continuation_that_fails_ends_its_chain(api: Api) -> None:
    with api.connect() as socket:
        first = checked(in_order(turn(socket, store=False, input="Remember the code word: ember.")))
        asked = {"store": False, "previous_response_id": first["id"]}
        output = {"type": "function_call_output", "call_id": "call_missing", "output": "There is no such call."}
        assert failure(turn(socket, **asked, input=[output])) == "unknown_tool_call"
        assert failure(turn(socket, **asked, input="Go on.")) == "previous_response_not_found"


def test_a_compacted_conversation_begins_a_chain(api: Api) -> None:
    messages = [said("Remember the code word: slate."), said("OK.", "assistant"), said("Compress this.")]
    compacted = api.post("/compact", model="default", input=messages).json()["output"]
    with api.connect() as socket:
        response = in_order(turn(socket, store=False, input=[*compacted, said("What is the code word?")]))
        assert checked(response)["previous_response_id"] is None
