"""Versions of a message: edited, generated again and switched, with the keyboard, in two tabs."""

import os
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.chat_page import SOON, ChatPage, answering
from tests.browser.conftest import NewTab


def picture(chat: ChatPage, name: str) -> None:
    """Store a screenshot if KOMAND_PICTURES names a folder: for people who look at it."""
    if folder := os.environ.get("KOMAND_PICTURES"):
        chat.page.screenshot(path=Path(folder) / f"{name}.png")


def test_a_message_is_edited_in_place_and_the_earlier_version_is_one_click_away(
    chat: ChatPage, new_tab: NewTab
) -> None:
    chat.ask(text="First answer")
    chat.wait_finished()
    chat.ask(text="Second answer")
    chat.wait_finished()
    other = new_tab().open(chat.page.url.removeprefix(chat.url))
    expect(other.answers).to_have_count(2)
    first = chat.page.locator(".turn").first
    first.hover()
    picture(chat, "hover")
    first.get_by_role("button", name="Edit the message").click()
    box = chat.page.get_by_role("textbox", name="Changed text")
    expect(box).to_be_focused()
    expect(box).to_have_value(answering(text="First answer"))
    picture(chat, "editing")
    box.press("Escape")
    expect(first.get_by_role("button", name="Edit the message")).to_be_focused()
    chat.page.keyboard.press("Enter")
    box.fill(answering(text="Another answer"))
    box.press("Enter")
    for tab in (chat, other):
        expect(tab.answers).to_have_count(1, timeout=SOON)
        expect(tab.answers).to_contain_text("Another answer", timeout=SOON)
        expect(tab.page.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    expect(chat.box).to_be_focused()
    chat.wait_finished()
    picture(chat, "edited")
    chat.page.get_by_role("button", name="Earlier version").click()
    for tab in (chat, other):
        expect(tab.answers).to_contain_text(["First answer", "Second answer"], timeout=SOON)
        expect(tab.page.get_by_role("group", name="Version 1 of 2")).to_be_visible()
    expect(chat.page.get_by_role("button", name="Later version")).to_be_focused()
    picture(chat, "first")
    chat.page.reload()
    expect(chat.answers).to_have_count(2)
    chat.page.get_by_role("button", name="Later version").press("Enter")
    expect(chat.answers.first).to_contain_text("Another answer", timeout=SOON)
    expect(chat.answers).to_have_count(1)
    chat.ask(text="Further")
    expect(other.answers).to_have_count(2, timeout=SOON)


def test_an_answer_is_generated_again(chat: ChatPage) -> None:
    chat.ask(tokens=3)
    chat.wait_finished()
    chat.ask(text="Again and again")
    chat.wait_finished()
    expect(chat.page.get_by_role("button", name="Generate the answer again")).to_have_count(1)
    for count in (2, 3):
        chat.page.get_by_role("button", name="Generate the answer again").click()
        expect(chat.page.get_by_role("group", name=f"Version {count} of {count}")).to_be_visible(timeout=SOON)
        chat.wait_finished()
    expect(chat.answers).to_have_count(2)
    expect(chat.answers.last).to_contain_text("Again and again")
    picture(chat, "regenerated")


def test_a_message_is_not_edited_during_an_answer(chat: ChatPage) -> None:
    chat.ask(tokens=2)
    chat.wait_finished()
    chat.ask(tokens=2000, rate=20)
    chat.expects_refusals = True
    chat.page.locator(".turn").first.hover()
    chat.page.locator(".turn").first.get_by_role("button", name="Edit the message").click()
    chat.page.get_by_role("textbox", name="Changed text").press("Enter")
    expect(chat.page.locator("#note")).to_contain_text("Wait for its answer or stop it", timeout=SOON)
    expect(chat.page.get_by_role("textbox", name="Changed text")).to_be_visible()
    chat.page.get_by_role("button", name="Stop").first.click()
    chat.wait_finished()
