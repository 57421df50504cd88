"""The parts of messages that models take, by the operator's choice and by their name."""

from dataclasses import replace

import pytest

from agents_app.models import ModelProvider
from agents_app.providers.accepts import NOTHING, Accepts, chosen_kinds, kinds_by_name
from agents_app.providers.kinds.openai import OpenAIProvider
from agents_app.providers.request_parts import name_sent, select
from agents_app.types import Message, MessagePart, OmittedPart

IMAGE = MessagePart("image", "image/png", "a.png", 2_000, "id-1", "Attached image a.png (image/png, 2.0 kB)")
PAPER = replace(IMAGE, kind="file", mime_type="application/pdf", name="b.pdf", reference="id-2", title="Attached file")
IMAGES = OpenAIProvider.parts.only({"image"})


def shows(*parts: MessagePart, text: str = "Look.") -> Message:
    return Message("user", "\n\n".join([text, *(part.note for part in parts)]), parts=parts)


@pytest.mark.parametrize(
    ("model", "kinds"),
    [
        *((name, {"image"}) for name in ("gpt-4o", "gpt-5-mini", "o3", "claude-sonnet-5", "gemini-3-pro", "llava:7b")),
        *((name, {"image"}) for name in ("qwen2.5-vl:7b", "gemma3:12b", "llama3.2-vision", "openai/gpt-4.1-nano")),
        *((name, set()) for name in ("gpt-3.5-turbo", "o3-mini", "llama3.1:8b", "mistral-7b", "fake", "")),
        ("gpt-4o-audio-preview", {"audio"}),
        ("gemma3:1b", set()),
        ("text-embedding-3-large", set()),
    ],
)
def test_known_models(model: str, kinds: set[str]) -> None:
    assert kinds_by_name(model) == kinds


def test_the_operator_decides_before_the_name() -> None:
    server = OpenAIProvider(base_url="http://127.0.0.1:1/v1", default_model="gpt-4o")
    assert server.accepts("").types.keys() == {"image"}
    assert server.accepts("llama3.1").types == {}
    server.chosen_parts = chosen_kinds("image,audio")
    assert server.accepts("llama3.1").types.keys() == {"image", "audio"}
    server.chosen_parts = chosen_kinds("none")
    assert server.accepts("gpt-4o").types == {}
    assert OpenAIProvider().accepts("gpt-4o").types.keys() == {"image", "file"}


def test_every_choice_of_the_admin_is_understood() -> None:
    for choice, _ in ModelProvider.PARTS[2:]:
        assert ",".join(sorted(chosen_kinds(choice) or ())) == ",".join(sorted(choice.split(",")))


def test_what_the_model_does_not_take_is_described_with_the_reason() -> None:
    [message], omitted = select([shows(IMAGE, PAPER)], IMAGES)
    assert message.parts == (IMAGE,)
    assert "[Attached file: its content cannot be shown here, because the model does not accept files]" in (
        message.content
    )
    assert omitted == (OmittedPart("id-2", "b.pdf", "the model does not accept files"),)
    assert name_sent(message).content.startswith(f"Look.\n\n[{IMAGE.title}]\n\n[Attached file")


def test_the_newest_parts_are_kept() -> None:
    parts = [replace(IMAGE, reference=f"id-{number}") for number in range(4)]
    messages, omitted = select([shows(part) for part in parts], replace(IMAGES, most_parts=2))
    assert [message.parts for message in messages] == [(), (), (parts[2],), (parts[3],)]
    assert {part.reason for part in omitted} == {"the model takes at most 2 files"}


@pytest.mark.parametrize(
    ("part", "accepts", "reason"),
    [
        (IMAGE, NOTHING, "the model does not accept images"),
        (replace(IMAGE, mime_type="image/tiff"), IMAGES, "the model does not accept image/tiff"),
        (replace(PAPER, size_bytes=9_000_000), OpenAIProvider.parts, "it has more than 8 MB"),
        (replace(IMAGE, size_bytes=9_000_000), IMAGES, ""),
    ],
)
def test_reasons(part: MessagePart, accepts: Accepts, reason: str) -> None:
    assert accepts.objection(part) == reason


def test_a_note_that_is_not_in_the_text_is_added() -> None:
    [message], _ = select([Message("user", "", parts=(IMAGE,))], NOTHING)
    assert message.content == IMAGE.note_with("the model does not accept images")
    assert name_sent(Message("user", "Look.", parts=(IMAGE,))).content == f"Look.\n\n[{IMAGE.title}]"


def test_messages_without_parts_are_not_copied() -> None:
    message = Message("user", "hello")
    messages, omitted = select([message], NOTHING)
    assert messages[0] is message and omitted == ()
