"""Dictation: what is spoken goes to the transcription of the agent's provider, and its words into the message box."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chat_page import SOON, ChatPage
from tests.browser.conftest import NewTab
from tests.fakes.model_server import ModelServer


@pytest.fixture(scope="module")
def browser(full_chromium: Browser) -> Browser:
    return full_chromium


def _set_model(chat: ChatPage, name: str) -> None:
    """Choose in the admin which model transcribes."""
    chat.open("/admin/agents_app/modelprovider/").page.get_by_role("link", name="openai").first.click()
    chat.page.wait_for_url("**/change/**")
    chat.page.get_by_label("Transcription model").fill(name)
    chat.page.get_by_role("button", name="Save", exact=True).click()
    chat.page.wait_for_url("**/modelprovider/")


@pytest.fixture
def hearing(new_tab: NewTab) -> Iterator[None]:
    """Let the provider of the installation transcribe."""
    admin = new_tab()
    _set_model(admin, "whisper-1")
    yield
    _set_model(admin, "")


def test_an_agent_whose_provider_transcribes_nothing_has_no_microphone(chat: ChatPage) -> None:
    expect(chat.page.get_by_role("button", name="Attach files")).to_be_visible()
    expect(chat.page.locator("#dictate")).to_have_count(0)


def test_spoken_words_are_put_where_the_cursor_is(hearing: None, new_tab: NewTab, model_server: ModelServer) -> None:
    chat = new_tab(permissions=["microphone"]).open()
    microphone = chat.page.get_by_role("button", name="Dictate")
    chat.box.fill("Please")
    model_server.speech.append('text=" book a table. "')
    microphone.click()
    expect(microphone).to_have_attribute("aria-pressed", "true")
    expect(chat.page.locator("#announcer")).to_have_text("Recording.")
    chat.page.wait_for_timeout(400)  # some of what the microphone hears
    microphone.click()
    expect(chat.box).to_have_value("Please book a table.", timeout=SOON)
    expect(chat.box).to_be_focused()
    expect(microphone).to_have_attribute("aria-pressed", "false")


def test_a_failure_says_what_to_do(hearing: None, new_tab: NewTab, model_server: ModelServer) -> None:
    chat = new_tab().open()
    chat.page.get_by_role("button", name="Dictate").click()
    note = chat.page.locator("#note")
    expect(note).to_have_text("The microphone cannot be used. Allow it for this page in your browser.")
    chat.page.context.grant_permissions(["microphone"])
    model_server.speech.append('text=" "')
    for _ in range(2):
        chat.page.get_by_role("button", name="Dictate").click()
        chat.page.wait_for_timeout(400)  # some of what the microphone hears
    expect(note).to_have_text("No words were heard. Try again.")
