"""axe-core finds nothing to complain about, in light and dark, wide and narrow."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from tests.browser.chat_page import ChatPage
from tests.browser.conftest import NewTab
from tests.browser.test_conversation import TWO_TOOLS
from tests.live import LiveKomand

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
LOOKS = [
    {"color_scheme": "light"},
    {"color_scheme": "dark"},
    {"color_scheme": "light", "viewport": {"width": 360, "height": 740}},
]


def _violations(chat: ChatPage) -> list[str]:
    found = Axe().run(chat.page).response["violations"]
    return [f"{item['id']}: {node['html']} {node['failureSummary']}" for item in found for node in item["nodes"]]


@pytest.mark.parametrize("look", LOOKS)
def test_login(chromium: Browser, live_komand: LiveKomand, look: dict[str, Any]) -> None:
    chat = ChatPage(chromium.new_context(**look).new_page(), live_komand.url).open("/login")
    assert _violations(chat) == []
    chat.log_in("wrong")
    expect(chat.page.get_by_role("alert")).to_be_visible()
    assert _violations(chat) == []


@pytest.mark.parametrize("look", LOOKS)
def test_chat(new_tab: NewTab, look: dict[str, Any]) -> None:
    chat = new_tab(**look).open()
    assert _violations(chat) == []
    first = chat.ask(tools=TWO_TOOLS, text=EVERYTHING)
    chat.wait_finished()
    first.locator(".call summary").first.click()
    chat.ask(tool="calculator", args={"expression": "1/0"}, text="failed")
    chat.wait_finished()
    chat.ask(tokens=2000, rate=20)
    chat.ask(tokens=1)
    expect(chat.answers.nth(2)).to_contain_text("tok3")
    assert _violations(chat) == []
    chat.page.keyboard.press("Control+/")
    assert _violations(chat) == []
    chat.page.keyboard.press("Escape")
    chat.stop.click()
    chat.wait_finished()
    chat.ask(status=401)
    chat.wait_finished()
    expect(chat.page.locator(".problem")).to_be_visible()
    assert _violations(chat) == []


def test_what_went_wrong_pages(new_tab: NewTab) -> None:
    assert _violations(new_tab().open("/chat/00000000-0000-7000-8000-000000000000")) == []
    assert _violations(new_tab().open("/no/such/page")) == []
