"""Files in the messages of the OpenAI protocol: read from the request, in each form of it."""

import base64
from typing import Any

import pytest

from agents_app.types import LoadedPart
from audit_app.kernel.errors import InvalidInput
from sessions_app.surfaces.openai.requests import read_completion, read_response

DATA = base64.b64encode(b"abc").decode()
URL = f"data:image/png;base64,{DATA}"


def content(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [*parts]}]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": URL, "detail": "low"}},
        {"type": "image_url", "image_url": URL},
        {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{DATA}"}},
        {"type": "file", "file": {"file_data": DATA}},
    ],
)
def test_a_completion_may_have_files(part: dict[str, Any]) -> None:
    parsed = read_completion({"model": "m", "messages": content({"type": "text", "text": "Look."}, part)})
    assert parsed.text == "Look."
    [file] = parsed.files
    assert isinstance(file, LoadedPart) and file.data == b"abc"


def test_a_response_may_have_files_and_no_text() -> None:
    image = {"type": "input_image", "image_url": URL}
    paper = {"type": "input_file", "filename": "a.pdf", "file_data": DATA}
    parsed = read_response({"model": "m", "input": content(image, paper)})
    assert parsed.text == "" and [file.name for file in parsed.files] == ["", "a.pdf"]


def test_files_of_earlier_messages_stay_with_them() -> None:
    earlier = [*content({"type": "image_url", "image_url": {"url": URL}}), {"role": "assistant", "content": "Red."}]
    parsed = read_completion({"model": "m", "messages": [*earlier, {"role": "user", "content": "And now?"}]})
    assert parsed.files == () and len(parsed.history[0].parts) == 1


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, "fetches no addresses"),
        ({"type": "input_image", "file_id": "file-1"}, "fetches no addresses"),
        ({"type": "input_file", "file_id": "file-1"}, "Send the content of a file"),
        ({"type": "image_url", "image_url": 7}, "must be an object"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,!!"}}, "must be base64"),
        ({"type": "input_audio", "input_audio": {"format": "wav"}}, "must be base64"),
        ({"type": "video"}, "not supported"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(part: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as refused:
        read_completion({"model": "m", "messages": content(part)})
    assert refused.value.extra["param"] == "messages[0].content[0]"


def test_only_users_send_files() -> None:
    messages = [{"role": "system", "content": [{"type": "image_url", "image_url": {"url": URL}}]}, *content()]
    with pytest.raises(InvalidInput, match="not supported here"):
        read_completion({"model": "m", "messages": messages})
