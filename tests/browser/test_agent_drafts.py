"""A draft of an agent: saved in the admin, tried in a chat of its own, published."""

import re

from playwright.sync_api import expect

from tests.browser.chat_page import SOON
from tests.browser.conftest import NewTab
from tests.fakes.model_server import ModelServer


def test_a_draft_is_tried_before_it_is_published(new_tab: NewTab, careful: str, model_server: ModelServer) -> None:
    chat = new_tab(viewport={"width": 1280, "height": 800})
    chat.open(f"/admin/agents_app/agent/?q={careful}")
    page = chat.page
    page.locator("#result_list tbody th a").first.click()
    agent_url = page.url
    page.get_by_text("Behaviour", exact=True).first.click()
    page.get_by_label("System prompt").fill("Answer like a pirate.")
    page.get_by_role("button", name="Save as draft").click()
    expect(page.get_by_text("Draft saved.")).to_be_visible()
    expect(page.get_by_text("changed successfully")).to_have_count(0)
    expect(page.get_by_role("link", name="Publish it")).to_be_visible()

    def prompt_of(path: str) -> str:
        tab = new_tab().open(path)
        tab.ask(text="Aye")
        tab.wait_finished()
        return str(model_server.messages[0])

    assert "pirate" not in prompt_of(f"/chat/new?agent={careful}")
    page.goto(agent_url.replace("/change/", "/versions/"))
    page.get_by_role("link", name="Try the draft").click()
    expect(page).to_have_title(re.compile("Try the draft · Komand$"))  # other chats may wait for the user
    chat.ask(text="Aye")
    chat.wait_finished()
    assert "pirate" in str(model_server.messages[0])
    page.goto(agent_url.replace("/change/", "/versions/"))
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("The draft is published as version")).to_be_visible(timeout=SOON)
    expect(page.get_by_role("heading", name="Draft")).to_have_count(0)
    assert "pirate" in prompt_of(f"/chat/new?agent={careful}")
