"""The account pages in a browser: an authenticator app, a confirmation before a high-risk decision, sessions."""

import re
import time

import httpx2
import pyotp
from playwright.sync_api import Browser, Page, expect

from tests.browser.chat_page import SOON, ChatPage, answering
from tests.support.live_server import LiveKomand

PASSWORD = "a long enough passphrase"
MAKE_USER = f"""
from django.contrib.auth.models import User
User.objects.create_superuser("tess", "tess@example.org", {PASSWORD!r})
"""
# The logins of tess are old from now on, and the waiting call is of high risk.
AGE = """
from importlib import import_module
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from tools_app.models import ToolExecution
for row in Session.objects.all():
    session = import_module(settings.SESSION_ENGINE).SessionStore(row.session_key)
    if session.get("_auth_user_id") == str(User.objects.get(username="tess").pk):
        session["authenticated_at"] = 0
        session.save()
ToolExecution.objects.filter(status="Pending").update(risk="high")
"""


def run(komand: LiveKomand, code: str) -> None:
    done = komand.manage("shell", "-c", code)
    assert done.returncode == 0, done.stderr


def log_in(browser: Browser, komand: LiveKomand) -> ChatPage:
    """Enter the password of tess in a new browser."""
    tab = ChatPage(browser.new_context(reduced_motion="reduce").new_page(), komand.url).open("/login")
    tab.log_in(PASSWORD, "tess")
    return tab


def enrol(page: Page) -> tuple[pyotp.TOTP, list[str]]:
    """Set up an authenticator app. Return it and the recovery codes."""
    page.get_by_role("link", name="Set up an authenticator app").click()
    expect(page.locator("svg.segno")).to_be_visible()
    key = page.locator(".reference code").inner_text()
    app = pyotp.TOTP(re.sub(r"\s", "", key))
    page.get_by_label("Code of the app").fill(app.now())
    page.get_by_role("button", name="Switch on").click()
    codes = page.locator("#recovery-codes code").all_inner_texts()
    page.get_by_role("link", name="I have saved them").click()
    return app, codes


def test_a_second_factor_a_confirmation_and_the_list_of_sessions(chromium: Browser, live_komand: LiveKomand) -> None:
    run(live_komand, MAKE_USER)
    phone = log_in(chromium, live_komand)
    phone.page.wait_for_url("**/chat/**")
    phone.page.get_by_title("Your account").click()
    app, codes = enrol(phone.page)
    assert len(codes) == 10
    expect(phone.page.get_by_text("10 recovery codes left")).to_be_visible()

    laptop = log_in(chromium, live_komand)
    laptop.page.get_by_label("Code").fill("000000")
    laptop.page.get_by_role("button", name="Log in").click()
    expect(laptop.page.get_by_role("alert")).to_contain_text("Wrong code")
    laptop.page.get_by_label("Code").fill(app.at(time.time() + 30))  # the next one: this one was used
    laptop.page.get_by_role("button", name="Log in").click()
    laptop.page.wait_for_url("**/chat/**")

    decide_high_risk(laptop, live_komand, codes[0])
    laptop.page.get_by_title("Your account").click()
    expect(laptop.page.get_by_text("this device")).to_be_visible()
    laptop.page.get_by_role("button", name="Sign out everywhere else").click()
    expect(laptop.page.get_by_role("button", name=re.compile("^Sign out "))).to_have_count(1)
    phone.page.reload()
    expect(phone.page.get_by_role("heading", name="Log in to Komand")).to_be_visible()
    for tab in (phone, laptop):
        tab.page.context.close()


def decide_high_risk(tab: ChatPage, komand: LiveKomand, code: str) -> None:
    """Let an agent ask for a call of high risk, and allow it: an old login has to be confirmed before."""
    agent = {"agentId": "risky", "name": "Risky", "alwaysAsk": ["echo"]}
    headers = {"Authorization": f"Bearer {komand.api_key}"}
    httpx2.post(f"{komand.url}/api/agents", json=agent, headers=headers, timeout=30).raise_for_status()
    tab.open("/chat/new?agent=risky")
    tab.send(answering(tool="echo", args={"text": "to the moon"}, text="It echoed."))
    expect(tab.page.locator(".approval[data-pending]")).to_be_visible(timeout=SOON)
    run(komand, AGE)
    tab.page.reload()
    tab.page.get_by_role("button", name="Allow once").click()
    expect(tab.page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()
    tab.page.get_by_label(re.compile("Password of tess")).fill(PASSWORD)
    tab.page.get_by_label("Code of your authenticator app").fill(code)
    tab.page.get_by_role("button", name="Confirm").click()
    tab.page.get_by_role("button", name="Allow once").click()
    expect(tab.page.locator(".approval.is-over")).to_contain_text("Allowed once by tess", timeout=SOON)
