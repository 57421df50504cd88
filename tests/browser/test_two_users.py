"""Two users in two browsers: one sees nothing of the other's agent, session, files and requests for approval."""

from collections.abc import Callable, Iterator

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chat_page import SOON, ChatPage, answering
from tests.support.live_server import LiveKomand

PASSWORD = "a long enough passphrase"
MAKE_USERS = f"""
from django.contrib.auth.models import Group, User
for name in ("alice", "bob"):
    user = User.objects.create_user(name, f"{{name}}@example.org", {PASSWORD!r})
    user.groups.add(Group.objects.get(name="Agent owner"))
"""
TITLE = "the secret project"
LogIn = Callable[[str], ChatPage]
# Returns the outcome of a WebSocket: `open`, or `closed`.
CONNECT = """path => new Promise(resolve => {
    const socket = new WebSocket(location.origin.replace("http", "ws") + path);
    socket.onopen = () => { socket.onclose = () => resolve("closed"); setTimeout(() => resolve("open"), 3000); };
    socket.onclose = () => resolve("closed");
})"""


@pytest.fixture(scope="module")
def users(live_komand: LiveKomand) -> None:
    """Create alice and bob, and an agent of alice that needs approval for `echo`."""
    made = live_komand.manage("shell", "-c", MAKE_USERS)
    assert made.returncode == 0, made.stderr
    agent = {"agentId": "alices", "name": "Agent of Alice", "alwaysAsk": ["echo"]}
    answer = call(live_komand, "alice", "POST", "agents", agent)
    assert answer.status_code in (200, 201), answer.text


@pytest.fixture
def log_in(chromium: Browser, live_komand: LiveKomand, users: None) -> Iterator[LogIn]:
    contexts = []

    def log_in(name: str) -> ChatPage:
        contexts.append(chromium.new_context(reduced_motion="reduce"))
        tab = ChatPage(contexts[-1].new_page(), live_komand.url).open("/login")
        tab.log_in(PASSWORD, name)
        tab.page.wait_for_url("**/chat/**")
        return tab

    yield log_in
    for context in contexts:
        context.close()


def test_a_user_sees_nothing_of_another(log_in: LogIn, live_komand: LiveKomand) -> None:
    alice, bob = log_in("alice"), log_in("bob")
    alice.open("/chat/new?agent=alices")
    alice.send(f"{TITLE}\n\n{answering(tool='echo', args={'text': 'to the moon'}, text='Done.')}")
    request = alice.page.locator(".approval[data-pending]")
    expect(request).to_be_visible(timeout=SOON)
    alice.page.wait_for_url("**/chat/*-*")
    path = alice.page.url.removeprefix(alice.url)

    bob.open()
    expect(bob.page.locator("body")).not_to_contain_text(TITLE)
    expect(bob.page.locator("body")).not_to_contain_text("Agent of Alice")
    for hidden in (path, f"{path}/turns", f"{path}/files"):
        assert bob.page.request.get(f"{bob.url}{hidden}").status == 404
    bob.open(path)
    expect(bob.page.get_by_role("heading", name="This chat was deleted")).to_be_visible()
    bob.open("/chat/new?agent=alices")
    expect(bob.page.locator("body")).not_to_contain_text("Agent of Alice")
    assert bob.page.evaluate(CONNECT, f"/ws{path}") == "closed"
    assert alice.page.evaluate(CONNECT, f"/ws{path}") == "open"

    # Deciding takes a right that neither has. To bob there is no such request at all.
    expect(request.get_by_role("button", name="Allow once")).to_have_count(0)
    [pending] = call(live_komand, "alice", "GET", "approvals").json()["data"]
    decide = f"approvals/{pending['approvalId']}/decide"
    refused = call(live_komand, "alice", "POST", decide, {"decision": "allow_once"})
    assert (refused.status_code, "tools_app.change_approval" in refused.text) == (403, True)
    assert call(live_komand, "bob", "POST", decide, {"decision": "allow_once"}).status_code == 404
    assert call(live_komand, "bob", "GET", "agents/alices").status_code == 404
    expect(request).to_be_visible()


def call(komand: LiveKomand, name: str, method: str, path: str, body: object = None) -> httpx2.Response:
    with httpx2.Client(base_url=f"{komand.url}/api", timeout=60) as api:
        login = api.post("/auth/login", json={"email": f"{name}@example.org", "password": PASSWORD})
        token = login.json()["data"]["token"]
        return api.request(method, f"/{path}", json=body, headers={"Authorization": f"Bearer {token}"})
