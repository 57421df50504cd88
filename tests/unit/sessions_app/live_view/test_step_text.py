"""Properties of StepText: a client that applies its updates ends with the text, also after a resume."""

from hypothesis import given
from hypothesis import strategies as st

from sessions_app.live_view.step_text import StepText, TextUpdate
from sessions_app.surfaces.threads.resumable_text import ResumableText

TEXTS = st.text("ab", max_size=4)
CHANGES = st.lists(st.tuples(st.sampled_from(["add", "replace", "reset"]), TEXTS), max_size=8)


def change(text: StepText, name: str, piece: str) -> TextUpdate:
    if name == "reset":
        text.reset()
        return TextUpdate()
    return text.add(piece) if name == "add" else text.replace(piece)


def shown(before: str, update: TextUpdate) -> str:
    return ("" if update.restarts else before) + update.piece


@given(CHANGES)
def test_a_client_has_the_text_that_was_sent_and_ends_with_the_whole_text(changes: list[tuple[str, str]]) -> None:
    text, client = StepText(), ""
    for name, piece in changes:
        client = shown(client, change(text, name, piece))
        assert client == text.sent and len(client) == text.length
    assert shown(client, text.close()) == text.text


@given(CHANGES, TEXTS)
def test_a_client_that_resumes_ends_with_the_whole_text(changes: list[tuple[str, str]], final: str) -> None:
    earlier, client = ResumableText(), ""
    for name, piece in changes:
        client = shown(client, change(earlier, name, piece))
    resumed = ResumableText(earlier.length, earlier.check)
    client = shown(client, resumed.add(final))
    assert shown(client, resumed.close()) == final


def test_text_that_repeats_is_sent_once() -> None:
    text = StepText()
    assert text.add("Hello") == TextUpdate(piece="Hello")
    text.reset()
    assert text.add("Hel") == TextUpdate()
    assert text.add("lo!") == TextUpdate(piece="!")
