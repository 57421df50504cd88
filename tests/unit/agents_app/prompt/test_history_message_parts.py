"""Parts of messages in a model's history."""

from dataclasses import replace

from agents_app.prompt.history import fit, repair
from agents_app.types import LoadedPart, Message, MessagePart

IMAGE = MessagePart("image", "image/png", "a.png", 2_000, "id-1", "Attached image a.png (image/png, 2.0 kB)")
PAPER = replace(IMAGE, kind="file", mime_type="application/pdf", reference="id-2", size_bytes=1_000_000)


def test_the_note_of_a_part_may_contain_the_reason() -> None:
    assert IMAGE.note == "[Attached image a.png (image/png, 2.0 kB): its content cannot be shown here]"
    assert IMAGE.note_with("it is broken").endswith("its content cannot be shown here, because it is broken]")


def test_merged_messages_keep_their_parts_in_order() -> None:
    one, two = Message("user", "one", parts=(IMAGE,)), Message("user", "two", parts=(PAPER,))
    assert repair([one, two]) == (Message("user", "one\n\ntwo", parts=(IMAGE, PAPER)),)
    assert repair([Message("user", "", parts=(IMAGE,))]) == (Message("user", "", parts=(IMAGE,)),)


def test_parts_count_for_the_budget_of_a_history() -> None:
    answer, newest = Message("assistant", "Yes."), Message("user", "now")
    with_image, with_file = Message("user", "", parts=(IMAGE,)), Message("user", "", parts=(PAPER,))
    assert fit([with_image, answer, newest], budget_tokens=1_300) == (with_image, answer, newest)
    assert fit([with_image, answer, newest], budget_tokens=1_000) == (newest,)
    assert fit([with_file, answer, newest], budget_tokens=19_000) == (newest,)
    assert fit([with_image], budget_tokens=1) == (with_image,), "the newest message is always kept"


def test_bytes_are_not_shown() -> None:
    assert "secret" not in repr(LoadedPart(**vars(IMAGE), data=b"secret"))
