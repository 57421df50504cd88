"""Komand in a pocket: notifications by web push from the subscription to the decision, and the page while offline."""

import json
import re
import time
from typing import Any

import pytest
from playwright.sync_api import Browser, CDPSession, Worker, expect

from tests.browser.chat_page import SOON, ChatPage
from tests.browser.conftest import NewTab
from tests.browser.test_accessibility import find_violations
from tests.browser.test_approvals import ask
from tests.fakes.push_service import PushBrowser, PushService
from tests.support.live_server import LiveKomand, wait_for

# Chromium itself subscribes at a service on the Internet only.
_SUBSCRIBED = """
(() => {
  const made = %s;
  PushManager.prototype.subscribe = async ({ applicationServerKey, userVisibleOnly }) => {
    if (applicationServerKey.length !== 87 || !userVisibleOnly) throw new TypeError("not a key");
    return { toJSON: () => made };
  };
})();
"""
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser(full_chromium: Browser) -> Browser:
    return full_chromium


def deliver(session: CDPSession, komand: LiveKomand, registration: str, message: dict[str, Any]) -> None:
    given = {"origin": komand.url, "registrationId": registration, "data": json.dumps(message)}
    session.send("ServiceWorker.deliverPushMessage", given)


def notified(worker: Worker) -> list[dict[str, str]]:
    """Return the notifications that the system shows."""
    found: list[dict[str, str]] = worker.evaluate(
        "async () => (await registration.getNotifications()).map(({ title, body, data }) => ({ title, body, ...data }))"
    )
    return found


def newest(browser: PushBrowser, title: str, call: str = "") -> dict[str, Any]:
    """Wait for a message to the browser with this title. call: its id, if others may wait as well."""

    def found() -> list[dict[str, Any]]:
        return [each for each in browser.shown if each["title"] == title and each["url"].endswith(call)]

    messages: list[dict[str, Any]] = wait_for(found, SOON / 1000, title)
    return messages[-1]


def test_an_approval_is_decided_from_a_phone_that_showed_no_page(
    chat: ChatPage, new_tab: NewTab, careful: str, live_komand: LiveKomand, push_service: PushService
) -> None:
    browser = push_service.add("pixel")
    fields = browser.fields(push_service)
    made = {"endpoint": fields["endpoint"], "keys": {"p256dh": fields["p256dh"], "auth": fields["auth"]}}
    phone = new_tab(viewport=PHONE, permissions=["notifications"])
    page = phone.page
    page.add_init_script(_SUBSCRIBED % json.dumps(made))
    registrations: list[str] = []
    session = page.context.new_cdp_session(page)
    session.on(
        "ServiceWorker.workerRegistrationUpdated",
        lambda event: registrations.extend(each["registrationId"] for each in event["registrations"]),
    )
    session.send("ServiceWorker.enable")
    phone.open("/account/notifications")
    page.get_by_role("button", name="Notify this browser").click()
    expect(page.get_by_role("status").first).to_contain_text("This browser is notified now")
    for look in ("light", "dark"):
        page.emulate_media(color_scheme=look)
        assert find_violations(page, look) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name=re.compile("Send a test")).click()
    newest(browser, "Notifications work")
    worker = page.context.service_workers[0]
    page.goto("about:blank")
    begun = time.monotonic()
    call = str(ask(chat, careful).get_attribute("id")).removeprefix("approval-")
    message = newest(browser, "Approval needed", call)
    assert time.monotonic() - begun < 15, "a second or two on a quiet machine"
    assert "moon" not in json.dumps(browser.shown)
    deliver(session, live_komand, registrations[-1], message)
    wait_for(lambda: bool(notified(worker)), SOON / 1000, "the notification")
    assert notified(worker) == [{"title": message["title"], "body": message["body"], "url": message["url"]}]
    phone.open(message["url"])
    waiting = page.locator(message["url"].partition("#")[2].join(("#", "")))
    expect(waiting).to_contain_text("to the moon")
    waiting.get_by_role("button", name="Allow once").click()
    expect(waiting).to_have_count(0, timeout=SOON)
    expect(chat.answers.last).to_contain_text("Done.", timeout=SOON)
    page.context.set_offline(True)
    page.goto(live_komand.url + "/chat/new")
    expect(page.get_by_role("heading", name="You are offline")).to_be_visible()
    page.context.set_offline(False)
    expect(page.locator("#message")).to_be_visible(timeout=SOON)
    phone.open("/account/notifications")
    page.get_by_role("button", name=re.compile("Remove")).first.click()
    expect(page.get_by_role("status").first).to_contain_text("not notified any more")


_REFUSE_FIRST = """
    const { register } = ServiceWorkerContainer.prototype;
    let tries = 0;
    ServiceWorkerContainer.prototype.register = function (...given) {
        return tries++ ? register.apply(this, given) : Promise.reject(new TypeError("no network"));
    };
"""


def test_a_page_that_lost_the_network_registers_the_service_worker_when_it_is_back(new_tab: NewTab) -> None:
    tab = new_tab()
    tab.page.add_init_script(_REFUSE_FIRST)
    tab.open()
    registered = "navigator.serviceWorker.getRegistration().then(Boolean)"
    assert tab.page.evaluate(registered) is False
    tab.page.context.set_offline(True)
    tab.page.context.set_offline(False)
    wait_for(lambda: bool(tab.page.evaluate(registered)), SOON / 1000, "the service worker")
