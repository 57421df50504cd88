"""The parameters of A2A: what is read, in both bindings, and what is refused."""

import base64
from typing import Any

import pytest

from audit_app.kernel.errors import InvalidInput
from sessions_app.surfaces.a2a.requests import answer_of, history_of, read_call, read_list, read_send

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hi"}]}


def send(*parts: Any, **configuration: Any) -> Any:
    return read_send({"message": {**MESSAGE, "parts": [*parts]}, "configuration": configuration})


def test_parts_become_texts_data_and_files() -> None:
    raw = bytes(range(250, 256))
    plain, safe = base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode().rstrip("=")
    request = send(
        {"text": "Look:"}, {"data": {"a": None}}, {"raw": plain, "filename": "a.bin"}, {"raw": safe}, {"data": None}
    )
    assert request.text == 'Look:\n\n{"a": null}\n\nnull' and request.data == ({"a": None}, None)
    assert [(file.name, file.data) for file in request.files] == [("a.bin", raw), ("", raw)]


def test_fields_that_the_protocol_does_not_have_are_ignored() -> None:
    request = read_send(
        {"message": {**MESSAGE, "mood": 1}, "tenant": "t", "configuration": {"acceptedOutputModes": []}}
    )
    assert (request.message_id, request.context_id, request.returns_immediately) == ("m", "", False)


def test_queries_have_texts_for_numbers_and_flags() -> None:
    by_query = read_list({"pageSize": "7", "includeArtifacts": "true", "historyLength": "2"})
    by_body = read_list({"pageSize": 7, "includeArtifacts": True, "historyLength": 2})
    assert by_query == by_body and (by_body.page_size, by_body.history_length) == (7, 2)
    assert read_list({}).page_size == 50 and history_of({}) is None
    assert read_list({"status": "TASK_STATE_UNSPECIFIED"}).state == ""


@pytest.mark.parametrize("size", [0, 101, "x", 1.5, True, "9" * 40, []])
def test_page_sizes_out_of_range_are_refused(size: Any) -> None:
    with pytest.raises(InvalidInput, match="pageSize must be an integer from 1 to 100"):
        read_list({"pageSize": size})


@pytest.mark.parametrize(
    ("parts", "answer"),
    [
        ([{"text": "blue"}], "blue"),
        ([{"data": {"answer": "blue"}}, {"text": "ignored"}], "blue"),
        ([{"data": {"answer": ["a\nb", "c"]}}], "a b\nc"),
    ],
)
def test_answers_to_questions(parts: list[Any], answer: str) -> None:
    assert answer_of(send(*parts)) == answer


@pytest.mark.parametrize("data", [{}, {"answer": 7}, {"answer": [" "]}, 7])
def test_data_without_an_answer_is_refused(data: Any) -> None:
    with pytest.raises(InvalidInput, match="must have `answer`"):
        answer_of(send({"data": data}))


@pytest.mark.parametrize("body", [None, [], {"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "method": "GetTask", "id": 1.5}])
def test_what_is_no_request_of_json_rpc(body: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_call(body)
    assert refused.value.code == "invalid_request"
