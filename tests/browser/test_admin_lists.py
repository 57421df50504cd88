"""The lists of the admin: they fit a window of 1280 pixels, and show names instead of keys."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewTab

LISTS = {
    "runs": "agents_app/run",
    "sessions": "sessions_app/session",
    "approvals": "tools_app/approval",
    "executions": "tools_app/toolexecution",
    "audit": "audit_app/auditentry",
    "agents": "agents_app/agent",
}
_TOO_WIDE = """() => [...document.querySelectorAll("#result_list, #result_list th, #result_list td")]
    .filter(cell => cell.getBoundingClientRect().right > innerWidth + 1).length"""

_STICKY = """() => [...document.querySelectorAll("#main > *")]
    .filter(part => getComputedStyle(part).position === "sticky").length"""


@pytest.fixture(scope="module")
def shots() -> Path | None:
    """Return the folder for pictures of the pages, if one is wanted."""
    return Path(os.environ["KOMAND_SHOTS"]) if "KOMAND_SHOTS" in os.environ else None


_COVERED = """() => [...document.querySelectorAll("#header-inner .k-crumb")].filter(title => {
    const box = title.getBoundingClientRect()
    const top = document.elementFromPoint(box.left + 2, box.top + box.height / 2)
    return !title.contains(top)
}).length"""


def test_buttons_of_an_agent_leave_room_for_its_title(new_tab: NewTab, careful: str) -> None:
    chat = new_tab(viewport={"width": 1280, "height": 800}).open(f"/admin/agents_app/agent/{careful}/change/")
    page = chat.page
    expect(page.get_by_role("link", name="Retire")).to_be_visible()
    assert page.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 0
    assert page.evaluate(_COVERED) == 0


def test_forms_fit_a_phone(new_tab: NewTab) -> None:
    chat = new_tab(viewport={"width": 390, "height": 844}).open("/admin/sessions_app/apikey/add/")
    expect(chat.page.get_by_label("Name")).to_be_visible()
    assert chat.page.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 0


def test_lists_fit_1280_pixels_and_show_names(new_tab: NewTab, careful: str, shots: Path | None) -> None:
    chat = new_tab(viewport={"width": 1280, "height": 800})
    chat.open(f"/admin/agents_app/agent/{careful}/try/")  # the button "Try it"
    expect(chat.page.get_by_label("Agent")).to_have_value(careful)
    chat.send("echo a list of planets and moons of the solar system")
    expect(chat.page.get_by_role("button", name="Allow once")).to_be_visible()
    for name, address in LISTS.items():
        page = chat.page
        page.goto(f"{chat.url}/admin/{address}/")
        expect(page.locator("#result_list")).to_be_visible()
        if shots:
            page.screenshot(path=shots / f"{name}.png")
        assert page.evaluate(_TOO_WIDE) == 0, name
        assert page.evaluate(_STICKY) == 0, f"the footer of {name} covers rows"
    chat.page.goto(f"{chat.url}/admin/agents_app/run/")
    row = chat.page.locator("#result_list tbody tr").first
    for text in ("echo a list of planets", "Careful", "admin", "just now"):
        expect(row).to_contain_text(text)
    row.get_by_role("link").first.click()
    expect(chat.page.locator(".k-bars")).to_contain_text("echo · waits for a person")
    if shots:
        chat.page.screenshot(path=shots / "run.png", full_page=True)


def test_the_link_of_an_invitation_is_copied(new_tab: NewTab) -> None:
    page = new_tab(permissions=["clipboard-read", "clipboard-write"]).open("/admin/auth/user/add/").page
    page.get_by_label("Username").fill("copied")
    page.get_by_role("button", name="Save", exact=True).click()
    for again in (False, True):
        if again:
            page.get_by_role("link", name="Open the user").click()
            page.get_by_role("link", name="New invitation").click()
            page.get_by_role("button", name="Create the link").click()
        link = page.locator("#invitation-link").input_value()
        page.get_by_role("button", name="Copy").click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == link
