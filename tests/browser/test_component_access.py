"""Tokens and origins that `<komand-chat>` is refused with: what its user reads, and that nothing is stored."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx2
import jwt
import pytest
from playwright.sync_api import Browser, FrameLocator, Page, expect

from tests.browser.chat_page import answering
from tests.browser.component_site import picture_of, send
from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer
from tests.support.live_server import LiveKomand

SIGNED_OUT = "You are not signed in to this chat, or your sign-in has expired. Reload the page."
FOREIGN = "This page may not show the chat."
PAGE = """<!doctype html><html lang="en"><title>Host</title><body><main>
<komand-chat agent="default" thread="{thread}"></komand-chat>
<script>
const chat = document.querySelector("komand-chat");
window.errors = [];
chat.addEventListener("komand-error", ({{ detail }}) => errors.push(detail.code));
chat.getToken = {get_token};
</script><script src="{url}/webchat/komand-chat.js"></script></main></body></html>"""
BY_SERVER = 'async (why) => (await fetch("/komand-token", { method: "POST", body: JSON.stringify(why) })).text()'
FRAMES = """<!doctype html><html lang="en"><title>Frames</title><body>
<iframe title="foreign" src="http://127.0.0.1:{port}/frame"></iframe>
<iframe title="sandboxed" sandbox="allow-scripts" src="/frame"></iframe></body></html>"""
# Users with a key each, of the one scope that the documentation names; Ann has a second one.
SET_UP = """
import json
from django.contrib.auth.models import User
from sessions_app.identity.api_keys import create_api_key
ann, bob = (User.objects.create_user(f"embed-{name}", f"embed-{name}@example.org") for name in ("ann", "bob"))
keys = {"ann": ann, "bob": bob, "ended": ann, "ends": ann}
print(json.dumps({name: create_api_key(user, name, scopes=["ag_ui"]).key for name, user in keys.items()}))
"""
END = "from sessions_app.models import ApiKey; ApiKey.objects.filter(name='{}', user__username='embed-ann').delete()"
COUNT = "from sessions_app.models import Session, Turn; print(Session.objects.count(), Turn.objects.count())"


class Host(FakeServer):
    """An application whose server issues tokens for the component.

    url_of: of Komand.
    tokens: what it answers with next; the last one again and again.
    asked: each question of the component, whether the token before was refused.
    """

    url_of = ""

    def __init__(self, *, port: int) -> None:
        super().__init__(port=port)
        self.tokens = [""]
        self.asked: list[bool] = []

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        if request.path == "/komand-token":
            self.asked.append(json.loads(request.body)["isExpired"])
            token = self.tokens.pop(0) if len(self.tokens) > 1 else self.tokens[0]
            return 200, {"Content-Type": "text/plain"}, token.encode()
        get_token = f"async () => {json.dumps(self.tokens[0])}" if request.path == "/frame" else BY_SERVER
        shown = PAGE.format(thread=request.path.strip("/"), get_token=get_token, url=self.url_of)
        if request.path == "/frames":
            shown = FRAMES.format(port=self.port)
        return 200, {"Content-Type": "text/html"}, shown.encode()


@pytest.fixture(scope="module")
def tokens(live_komand: LiveKomand) -> dict[str, str]:
    """Return the session tokens of the keys, and those that are refused."""
    made = live_komand.manage("shell", "-c", SET_UP)
    assert made.returncode == 0, made.stderr
    keys = json.loads(made.stdout.splitlines()[-1])
    issue = f"{live_komand.url}/token/issue"
    issued = {
        name: httpx2.post(issue, headers={"Authorization": f"Bearer {key}"}).json()["token"]
        for name, key in keys.items()
    }
    live_komand.manage("shell", "-c", END.format("ended"))
    claims = jwt.decode(issued["ann"], options={"verify_signature": False})
    own_key = (live_komand.data_dir / "secrets" / "jwt.key").read_text().strip()
    assert jwt.encode(claims, own_key, algorithm="HS256") == issued["ann"], "the same claims, the same token"
    past = {"exp": datetime.now(UTC) - timedelta(seconds=1)}
    issued["expired"] = jwt.encode({**claims, **past}, own_key, algorithm="HS256")
    issued["foreign"] = jwt.encode(claims, "k" * 64, algorithm="HS256")
    issued["of another use"] = jwt.encode({**claims, "aud": "komand:api"}, own_key, algorithm="HS256")
    return issued


@pytest.fixture
def host(live_komand: LiveKomand, embedding_port: int) -> Iterator[Host]:
    with Host(port=embedding_port) as server:
        server.url_of = live_komand.url
        yield server


def stored(komand: LiveKomand) -> str:
    """Return the numbers of sessions and turns."""
    return komand.manage("shell", "-c", COUNT).stdout.splitlines()[-1]


def open_thread(page: Page, host: Host, thread: str) -> None:
    page.goto(f"http://localhost:{host.port}/{thread}")


def test_a_refused_token_is_asked_for_again_once_and_then_explained(
    page: Page, host: Host, tokens: dict[str, str], live_komand: LiveKomand
) -> None:
    before = stored(live_komand)
    text = answering(text="Signed in again.")
    for name in ("expired", "foreign", "ended", "of another use"):
        host.tokens, host.asked = [tokens[name]], []
        open_thread(page, host, "refused")
        expect(page.get_by_role("alert")).to_have_text(SIGNED_OUT)
        assert host.asked == [False, True], name
        send(page, text)
        expect(page.get_by_role("textbox", name="Message")).to_have_value(text)
        expect(page.get_by_role("alert")).to_have_text(SIGNED_OUT)
        assert host.asked == [False, True] * 2, name
        expect(page.locator("#sending, #log")).to_have_text(["", ""])
        assert page.evaluate("[errors, localStorage.length]") == [["token_refused"] * 2, 0], name
    picture_of(page, "component-refused")
    assert stored(live_komand) == before

    host.tokens = [tokens["ann"]]
    page.get_by_role("textbox", name="Message").press("Enter")
    expect(page.locator(".answer:not([data-open])")).to_contain_text("Signed in again.")
    expect(page.get_by_role("alert")).to_have_text("")


def test_a_token_that_ends_in_a_conversation_is_replaced(
    page: Page, host: Host, tokens: dict[str, str], live_komand: LiveKomand
) -> None:
    host.tokens = [tokens["ends"], tokens["ann"]]
    open_thread(page, host, "ends")
    send(page, answering(text="Before."))
    expect(page.locator(".answer:not([data-open]) .markdown")).to_have_text(["Before."])
    assert host.asked == [False]
    live_komand.manage("shell", "-c", END.format("ends"))
    send(page, answering(text="After."))
    expect(page.locator(".answer:not([data-open]) .markdown")).to_have_text(["Before.", "After."])
    assert host.asked == [False, True]
    page.get_by_role("button", name="Good answer").first.click()
    expect(page.get_by_role("button", name="Good answer").first).to_have_attribute("aria-pressed", "true")


def test_a_token_of_another_user_shows_nothing_of_the_first(page: Page, host: Host, tokens: dict[str, str]) -> None:
    shown = page.locator(".answer:not([data-open]) .markdown")
    host.tokens = [tokens["ann"]]
    open_thread(page, host, "shared")
    send(page, answering(text="For Ann alone."))
    expect(shown).to_have_text(["For Ann alone."])
    host.tokens = [tokens["bob"]]
    page.reload()
    expect(page.get_by_text("Write a message to begin.")).to_be_visible()
    send(page, answering(text="For Bob alone."))
    expect(shown).to_have_text(["For Bob alone."])
    host.tokens = [tokens["ann"]]
    page.reload()
    expect(shown).to_have_text(["For Ann alone."])


def test_frames_of_other_origins_show_nothing(
    chromium: Browser, host: Host, tokens: dict[str, str], live_komand: LiveKomand
) -> None:
    before = stored(live_komand)
    host.tokens = [tokens["ann"]]
    page = chromium.new_page()
    page.goto(f"http://localhost:{host.port}/frames")
    for title in ("foreign", "sandboxed"):
        frame: FrameLocator = page.frame_locator(f"iframe[title={title}]")
        expect(frame.get_by_role("alert")).to_have_text(FOREIGN)
        box = frame.get_by_role("textbox", name="Message")
        box.fill("From a frame")
        box.press("Enter")
        expect(box).to_have_value("From a frame")
        expect(frame.get_by_role("alert")).to_have_text(FOREIGN)
    page.close()
    assert stored(live_komand) == before
