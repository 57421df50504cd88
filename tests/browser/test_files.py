"""Files beside the chat: each kind opens, pages of agents are isolated, keyboard and focus, on a phone as a sheet."""

import base64
from io import BytesIO

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.browser.chat_page import SOON, ChatPage
from tests.browser.conftest import NewTab
from tests.browser.test_accessibility import NARROW, find_violations

WIDE = {"width": 1440, "height": 900}
# What a page tries to reach, each with the name that it writes down when that succeeds.
HOSTILE = """\
<!doctype html><title>x</title><p id="out">waiting</p><script>
const got = [];
const attempt = async (name, act) => { try { if (await act()) got.push(name); } catch {} };
const loads = (element, url) => new Promise((done) => {
  element.onload = () => done(true); element.onerror = () => done(false);
  element.src = url; document.body.append(element); setTimeout(() => done(false), 1500);
});
(async () => {
  await attempt("cookies", () => document.cookie !== undefined);
  await attempt("storage", () => localStorage);
  await attempt("database", () => indexedDB.open("x"));
  await attempt("parent", () => parent.document.body);
  await attempt("top", () => top.document.cookie);
  await attempt("api", () => fetch("/api/sessions", { credentials: "include" }));
  await attempt("other host", () => fetch("https://example.org/", { mode: "no-cors" }));
  await attempt("beacon", () => navigator.sendBeacon("/api/sessions", "x") && false);
  await attempt("socket", () => new Promise((done) => {
    const socket = new WebSocket(`ws://${location.host}/ws/chat/x`);
    socket.onopen = () => done(true); socket.onerror = () => done(false);
  }));
  await attempt("image", () => loads(new Image(), "/static/img/komand.svg"));
  // A frame that is refused "loads" an error page; the test sees that nothing answered it.
  await attempt("frame", async () => (await loads(document.createElement("iframe"), "/chat/new")) && false);
  await attempt("popup", () => window.open("/chat/new"));
  await attempt("top navigation", () => { top.location = "https://example.org/"; return false; });
  out.textContent = origin + " got: " + got.join(", ");
})();
</script>
"""
TABLE = "name,price\n" + "\n".join(f"item {number},{number}" for number in range(250))


def _png() -> str:
    picture = BytesIO()
    Image.new("RGB", (640, 360), "#1f8a7c").save(picture, "PNG")
    return base64.b64encode(picture.getvalue()).decode()


def _write(path: str, content: str, encoding: str = "text") -> list[object]:
    return ["write_artifact", {"path": path, "content": content, "encoding": encoding}]


def _open(page: Page, name: str) -> None:
    page.locator(".written-file", has_text=name).last.click()
    expect(page.locator("#file-title")).to_have_text(name)
    expect(page.locator("#file-title")).to_be_focused()


@pytest.fixture
def written(new_tab: NewTab) -> ChatPage:
    """Return a chat whose agent has written a file of each kind."""
    chat = new_tab(viewport=WIDE, color_scheme="light").open()
    first = [_write("out/notes.md", "# Old notes"), _write("out/page.html", HOSTILE), _write("out/table.csv", TABLE)]
    chat.ask(tools=first, text="Written.")
    chat.wait_finished()
    second = [_write("out/notes.md", "# New **notes**"), _write("out/picture.png", _png(), "base64")]
    chat.ask(tools=[*second, _write("out/code.py", "def f():\n    return 1")], text="Written again.")
    chat.wait_finished()
    return chat


def test_files_open_beside_the_chat_and_pages_are_isolated(written: ChatPage) -> None:
    page, panel = written.page, written.page.locator("#file")
    _open(page, "notes.md")
    expect(panel.locator(".markdown h3")).to_have_text("New notes")
    panel.get_by_label("Version").select_option(label="Version 1 · now")
    expect(panel.locator(".markdown h3")).to_have_text("Old notes")
    panel.get_by_role("button", name="Source").click()
    expect(panel.locator(".code")).to_contain_text("# Old notes")
    assert find_violations(page, "source") == []
    _open(page, "code.py")
    expect(panel.locator(".c-k").first).to_have_text("def")
    _open(page, "table.csv")
    expect(panel.locator("tbody tr")).to_have_count(200)
    expect(panel.get_by_role("note")).to_have_text("The first 200 of 250 rows.")
    assert find_violations(page, "table") == []
    _open(page, "picture.png")
    assert panel.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 640
    answered: list[str] = []
    page.on("response", lambda response: answered.append(response.url))
    _open(page, "page.html")
    expect(page.frame_locator(".file-frame").locator("#out")).to_have_text("null got: ", timeout=SOON)
    assert [url for url in answered if "/file?path=" not in url and "/frame" not in url] == [], "it reaches no host"
    assert "/chat/" in page.url
    written.problems[:] = [
        one for one in written.problems if "Content Security Policy" not in one and "sandbox" not in one
    ]
    page.emulate_media(color_scheme="dark")
    assert find_violations(page, "dark", runOnly=["color-contrast"]) == []


def test_the_panel_closes_with_escape_and_is_a_sheet_on_a_phone(written: ChatPage) -> None:
    page, panel = written.page, written.page.locator("#file")
    _open(page, "table.csv")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(page.locator(".written-file", has_text="table.csv")).to_be_focused()
    page.get_by_role("button", name="Files of this chat").click()
    page.get_by_role("dialog").get_by_role("button", name="notes.md").click()
    expect(panel.locator(".markdown")).to_be_visible()
    written.ask(tools=[_write("out/notes.md", "# Newest notes")], text="Changed.")
    expect(panel.locator(".markdown h3")).to_have_text("Newest notes", timeout=SOON)
    written.wait_finished()
    page.set_viewport_size(NARROW)
    expect(page.locator("#file:modal")).to_be_visible()
    box = panel.bounding_box()
    assert box and (box["x"], box["width"], box["height"]) == (0, NARROW["width"], NARROW["height"])
    assert find_violations(page, "a sheet") == []
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    with page.expect_download() as download:
        page.get_by_role("button", name="Files of this chat").click()
        page.get_by_role("link", name="Download all").click()
    assert download.value.suggested_filename == "files.zip"


FORMULAS = r"""Inline $e^{i\pi} + 1 = 0$ and \(a^2 + b^2\), a price of $5 and $6, and broken $\frac{1}$ here.

$$\int_0^1 x^2\,dx = \tfrac{1}{3}$$

\[\href{javascript:alert(1)}{x} \includegraphics{/static/img/komand.svg}\]

```mermaid
graph TD
  A[Start] --> B{Works?}
  B -->|yes| C["<img src=x onerror=alert(1)>"]
  click A "javascript:alert(1)"
```

```mermaid
this is no diagram -->
```

The end.
"""


def test_formulas_and_diagrams_are_drawn_and_images_enlarged(new_tab: NewTab) -> None:
    chat = new_tab(viewport=WIDE, color_scheme="light").open()
    page = chat.page
    answered: list[str] = []
    page.on("response", lambda response: answered.append(response.url))
    chat.ask(text="Plain text.")
    chat.wait_finished()
    assert not [url for url in answered if "/vendor/" in url], "loaded only when used"
    page.locator("#attach-files").set_input_files(
        [{"name": f"{n}.png", "mimeType": "image/png", "buffer": base64.b64decode(_png())} for n in (1, 2)]
    )
    expect(page.locator("#attached li")).to_have_count(2)
    expect(page.locator("#attached progress:visible")).to_have_count(0)
    answer = chat.ask(text=FORMULAS)
    chat.wait_finished()
    expect(answer.locator(".katex")).to_have_count(4, timeout=SOON)  # links and images of formulas stay text
    expect(answer.locator(".math:not(.is-shown)").first).to_have_text(r"$\frac{1}$")
    expect(answer).to_contain_text("a price of $5 and $6")
    assert answer.locator(".math a, .math img").count() == 0
    drawn = answer.locator(".diagram[data-drawn]")
    expect(drawn).to_have_count(1, timeout=SOON)
    expect(answer.locator("iframe")).to_have_count(1, timeout=SOON)
    expect(answer.locator(".code pre:visible")).to_have_count(1)
    frame = page.frame_locator(".diagram").locator("body")
    expect(frame.locator("svg")).to_contain_text("Start")
    assert frame.evaluate("() => { try { return document.cookie } catch { return origin } }") == "null"
    assert frame.locator("img[onerror], a[href^=javascript]").count() == 0
    answer.get_by_role("button", name="Source").click()
    expect(answer.locator(".code pre:visible")).to_have_count(2)
    assert find_violations(page, "formulas and a diagram") == []
    assert [
        one for one in chat.problems if "Content Security Policy" not in one and "Content-Security" not in one
    ] == []
    chat.problems.clear()

    first = page.locator(".open-image").first
    first.focus()
    page.keyboard.press("Enter")
    box = page.locator("#lightbox")
    expect(box.locator("p")).to_have_text("1.png · 1 of 2")
    assert box.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 640
    page.keyboard.press("ArrowRight")
    expect(box.locator("p")).to_have_text("2.png · 2 of 2")
    assert find_violations(page, "an image") == []
    page.keyboard.press("Escape")
    expect(box).to_be_hidden()
    expect(first).to_be_focused()
