"""Accessibility: axe-core finds no violation, in light and dark, wide and narrow."""

from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Frame, Page, expect

from tests.browser.chat_page import ChatPage
from tests.browser.conftest import NewTab
from tests.browser.test_conversation import TWO_TOOLS
from tests.support.live_server import LiveKomand

EVERYTHING = """\
# Heading

Text with a [link](https://example.org/page), `code` and ![an image](https://example.org/a.png).

- [x] done
- [ ] to do

| a | b |
| --- | ---: |
| c | 1 |

```python
@decorator
class Thing(Base):  # comment
    def greet(self, name: str = "you") -> None:
        raise ValueError(f"{name!r} is {1.5}")
```

> quoted
"""
WIDE = {"width": 1280, "height": 720}
NARROW = {"width": 360, "height": 740}


def _violations(chat: ChatPage) -> list[str]:
    """Return what axe finds on the page, in light and dark, wide and narrow. Only colours differ in the dark."""
    page = chat.page
    found = find_violations(page, "light and wide")
    page.emulate_media(color_scheme="dark")
    found += find_violations(page, "dark", runOnly=["color-contrast"])
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(NARROW)
    found += find_violations(page, "light and narrow")
    page.set_viewport_size(WIDE)
    return found


def find_violations(page: Page | Frame, look: str, **options: Any) -> list[str]:
    """Return what axe finds on a page, or in one of its frames. look: names its state."""
    results = Axe().run(page, options={"resultTypes": ["violations"], **options})  # type: ignore[arg-type] # or a frame
    violations = results.response["violations"]
    return [
        f"{look}: {item['id']}: {node['html']} {node['failureSummary']}"
        for item in violations
        for node in item["nodes"]
    ]


@pytest.fixture
def stranger(chromium: Browser, live_komand: LiveKomand) -> Iterator[ChatPage]:
    """Return a tab without a login."""
    context = chromium.new_context(color_scheme="light", viewport=WIDE, reduced_motion="reduce")
    yield ChatPage(context.new_page(), live_komand.url)
    context.close()


def test_login(stranger: ChatPage) -> None:
    chat = stranger.open("/login")
    assert _violations(chat) == []
    chat.log_in("wrong")
    expect(chat.page.get_by_role("alert")).to_be_visible()
    assert _violations(chat) == []


def test_chat(new_tab: NewTab) -> None:
    chat = new_tab(color_scheme="light", viewport=WIDE).open()
    assert _violations(chat) == []
    first = chat.ask(tools=TWO_TOOLS, text=EVERYTHING)
    chat.wait_finished()
    first.locator(".calls > summary").click()
    first.locator(".call summary").first.click()
    chat.ask(tool="write_artifact", args={"path": "out/report.md", "content": "# Moon"}, text="written")
    chat.wait_finished()
    chat.ask(tool="calculator", args={"expression": "1/0"}, text="failed")
    chat.wait_finished()
    chat.ask(tokens=2000, rate=20)
    chat.ask(tokens=1)
    expect(chat.answers.nth(3)).to_contain_text("tok3")
    assert _violations(chat) == []
    chat.page.keyboard.press("Control+/")
    assert _violations(chat) == []
    chat.page.keyboard.press("Escape")
    chat.page.get_by_role("button", name="Files of this chat").click()
    expect(chat.page.get_by_role("dialog")).to_contain_text("report.md")
    assert _violations(chat) == []
    chat.page.keyboard.press("Escape")
    chat.stop.click()
    chat.wait_finished()
    chat.ask(status=401)
    chat.wait_finished()
    expect(chat.page.locator(".problem")).to_be_visible()
    assert _violations(chat) == []


def test_a_request_for_approval(new_tab: NewTab, careful: str) -> None:
    chat = new_tab(color_scheme="light", viewport=WIDE).open(f"/chat/new?agent={careful}")
    chat.ask(tool="echo", args={"text": "to the moon"}, text="Done.")
    request = chat.page.locator(".approval[data-pending]")
    expect(request).to_be_visible()
    request.get_by_text("Deny with a note").click()
    assert _violations(chat) == []
    request.get_by_role("button", name="Deny", exact=True).first.click()
    chat.wait_finished()
    assert _violations(chat) == []


def test_workstreams(new_tab: NewTab, team: str) -> None:
    chat = new_tab(color_scheme="light", viewport=WIDE).open(f"/chat/new?agent={team}")
    task = '[[tool=ask_user args={"question": "Which?", "options": ["A", "B"]} text="An **answer**."]]'
    chat.ask(tool="launch_workstream", args={"id": "a", "instruction": task}, text="It works.")
    chat.page.get_by_role("button", name="A", exact=True).wait_for()
    assert _violations(chat) == []
    chat.page.get_by_role("button", name="A", exact=True).click()
    chat.wait_finished()
    expect(chat.page.locator(".workstream-result")).to_be_visible()
    assert _violations(chat) == []


def test_error_pages(new_tab: NewTab) -> None:
    assert _violations(new_tab().open("/chat/00000000-0000-7000-8000-000000000000")) == []
    assert _violations(new_tab().open("/no/such/page")) == []
