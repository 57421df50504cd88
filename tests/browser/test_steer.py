"""Messages during an answer, and the commands of the message box."""

import re

from playwright.sync_api import expect

from tests.browser.chat_page import SOON, ChatPage, answering
from tests.browser.conftest import NewTab
from tests.fakes.model_server import ModelServer


def test_a_message_joins_interrupts_or_waits_and_can_be_taken_back(chat: ChatPage, model_server: ModelServer) -> None:
    choice = chat.page.get_by_role("group", name="What this message does to the answer that is being written")
    held = chat.page.locator(".sending-held")
    chat.ask(text="One.")
    chat.wait_finished()
    chat.ask(tokens=60, rate=40, hold=10)
    expect(choice).to_be_hidden()
    chat.box.fill("mine")
    expect(choice.get_by_role("radio", name="Wait")).to_be_checked()
    choice.get_by_role("radio", name="Interrupt").check()
    chat.box.press("Enter")
    expect(held).to_contain_text(re.compile(r"Interrupts the answer in \d s"))
    chat.box.fill("more")
    held.get_by_role("button", name="Take back").click()
    expect(chat.box).to_have_value("mine\n\nmore")
    expect(chat.page.locator(".sending")).to_have_count(0)

    choice.get_by_role("radio", name="Join").check()
    chat.send("and be brief " + answering(text="Brief."))
    held.get_by_role("button", name="Now").click()
    expect(chat.answers.last.locator(".joined")).to_contain_text("and be brief", timeout=SOON)
    expect(chat.questions).to_have_count(2)
    expect(chat.questions.last).to_contain_text("and be brief")
    model_server.go_on()
    expect(chat.answers.last).to_contain_text("Brief.", timeout=SOON)
    chat.wait_finished()
    expect(chat.page.locator(".joined")).to_have_count(0)

    chat.ask(tokens=60, rate=40, hold=10)
    chat.box.fill(answering(text="Then this."))
    choice.get_by_role("radio", name="Wait").check()
    chat.box.press("Enter")
    waiting = chat.answers.last
    expect(waiting).to_contain_text("Queued, next", timeout=SOON)
    waiting.get_by_role("button", name="Answer now").click()
    expect(chat.answers.nth(2)).to_contain_text("Stopped", timeout=SOON)
    expect(waiting).to_contain_text("Then this.", timeout=SOON)
    model_server.go_on()


def test_commands_are_listed_completed_and_carried_out(new_tab: NewTab, careful: str) -> None:
    chat = new_tab(viewport={"width": 390, "height": 800}).open(f"/chat/new?agent={careful}")
    shown = chat.page.locator("#commands li:visible")
    chat.ask(tool="echo", args={"text": "a"})
    approval = chat.page.locator(".approval[data-pending]")
    expect(approval).to_be_visible(timeout=SOON)
    chat.box.press_sequentially("/")
    expect(shown).to_have_count(9)
    chat.box.press_sequentially("de")
    expect(shown).to_have_text([re.compile("^/deny note to the agent")])
    chat.box.press("Enter")
    expect(chat.box).to_have_value("/deny ")
    chat.box.press_sequentially("not today")
    chat.box.press("Enter")
    expect(approval).to_have_count(0, timeout=SOON)
    expect(chat.page.locator(".approval-note")).to_have_text("not today")
    chat.wait_finished()
    chat.send("/status")
    expect(chat.page.locator("#note")).to_have_text("Nothing is running.")
    with chat.page.expect_response("**/context"):
        chat.page.evaluate("htmx.trigger(document.body, 'komand:answered')")
    expect(chat.page.locator("#note")).to_have_text("Nothing is running.")  # the gauge is no request of the user
    expect(chat.box).to_have_value("")
    chat.send("/usr/bin is a folder " + answering(text="So it is."))  # no command
    expect(chat.answers.last).to_contain_text("So it is.", timeout=SOON)
    chat.wait_finished()
    chat.box.press_sequentially("/he")
    chat.box.press("Enter")
    expect(shown).to_have_count(9)
    chat.box.press("ArrowDown")
    expect(chat.page.locator("#commands [aria-selected=true]")).to_contain_text("/stop")
    chat.box.press("Escape")
    expect(shown).to_have_count(0)
    chat.box.fill("/new")
    chat.box.press("Enter")
    chat.page.wait_for_url("**/chat/new", timeout=SOON)
