"""Long conversations on the page: the gauge of the context, pinned messages, and the line of a summary."""

import re

from playwright.sync_api import expect

from tests.browser.chat_page import SOON, ChatPage, answering
from tests.browser.conftest import NewTab
from tests.fakes.model_server import ModelServer

MEASURED = re.compile(r"about \d{1,3} of \d+ tokens")
LARGE = re.compile(r"about \d{4,} of \d+ tokens")


def test_the_gauge_grows_with_the_chat_and_lists_its_parts(chat: ChatPage) -> None:
    chat.ask(tokens=3)
    chat.wait_finished()
    gauge = chat.page.locator("#context-gauge")
    expect(gauge.locator("summary")).to_contain_text(MEASURED, timeout=SOON)
    chat.ask(tokens=3000)
    chat.wait_finished()
    expect(gauge.locator("summary")).to_contain_text(LARGE, timeout=SOON)
    gauge.locator("summary").press("Enter")
    expect(gauge.locator(".context-parts")).to_be_visible()
    button = gauge.get_by_role("button", name="Summarise earlier messages now")
    button.focus()
    button.evaluate("button => { button.dataset.old = ''; htmx.trigger(document.body, 'komand:answered') }")
    expect(button).not_to_have_attribute("data-old", timeout=SOON)  # the gauge is a newer one, and as open as before
    expect(button).to_be_focused()


def test_messages_are_summarised_on_request_and_a_pinned_one_is_still_sent(
    chat: ChatPage, new_tab: NewTab, model_server: ModelServer
) -> None:
    chat.ask(text="The code word is Albatross")
    chat.wait_finished()
    pin = chat.answers.first.get_by_role("button", name="Keep the answer in context")
    chat.answers.first.hover()
    pin.click()
    expect(pin).to_have_attribute("aria-pressed", "true")
    chat.ask(text="Something else")
    chat.wait_finished()
    model_server.script(answering(text="They talked about birds")[2:-2])
    chat.page.locator("#context-gauge summary").click()
    chat.page.get_by_role("button", name="Summarise earlier messages now").click()
    line = chat.page.locator(".compacted")
    expect(line).to_contain_text("Earlier messages were summarised", timeout=SOON)
    line.locator("summary").click()
    expect(line).to_contain_text("They talked about birds")
    other = new_tab().open(chat.page.url.removeprefix(chat.url))
    expect(other.page.locator(".compacted")).to_be_visible()
    expect(other.answers.first.get_by_role("button", name="Keep the answer in context")).to_have_attribute(
        "aria-pressed", "true"
    )
    chat.ask(text="Third")
    chat.wait_finished()
    sent = str(model_server.messages)
    assert "They talked about birds" in sent
    assert sent.count("Albatross") == 1, "its question is part of the summary"
