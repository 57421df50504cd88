"""Fixtures of the browser tests: a real Chromium and a real Komand. Without Chromium the tests are skipped."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

from tests.browser.chat_page import SOON, ChatPage
from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand

CHROMIUM = os.environ.get("KOMAND_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome") or ""
# The same engine without windows, microphones and notifications takes half of the CPU time.
HEADLESS_SHELL = os.environ.get("KOMAND_CHROMIUM") or shutil.which("chromium-headless-shell") or CHROMIUM
# Root needs no-sandbox; the rest keeps the browser from talking to anyone but us.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-default-apps",
    "--use-fake-device-for-media-stream",  # a microphone that beeps, for pages that may use one
]

NewTab = Callable[..., ChatPage]

expect.set_options(timeout=SOON)


@contextmanager
def open_chromium(*arguments: str) -> Iterator[Browser]:
    """Start a browser. While it runs, its event loop is in the way of asynchronous tests. arguments: further ones."""
    with sync_playwright() as playwright, _launch(playwright, HEADLESS_SHELL, *arguments) as browser:
        yield browser


@contextmanager
def _launch(playwright: Playwright, program: str, *arguments: str) -> Iterator[Browser]:
    if not program:
        pytest.skip("BROWSER TESTS SKIPPED: no Chromium here (apt-get install chromium, or set KOMAND_CHROMIUM)")
    browser = playwright.chromium.launch(executable_path=program, args=[*ARGUMENTS, *arguments])
    yield browser
    browser.close()


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="package")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    with _launch(playwright, HEADLESS_SHELL) as browser:
        yield browser


@pytest.fixture(scope="module")
def full_chromium(playwright: Playwright) -> Iterator[Browser]:
    """Return a browser that has what people's browsers have."""
    with _launch(playwright, CHROMIUM) as browser:
        yield browser


@pytest.fixture(scope="module")
def browser(chromium: Browser) -> Browser:
    """Return the browser of the tabs. A module that needs more replaces it by `full_chromium`."""
    return chromium


@pytest.fixture(scope="package")
def logged_in(chromium: Browser, live_komand: LiveKomand) -> Any:
    """Return the cookies of a user who logged in on the page."""
    context = chromium.new_context()
    chat = ChatPage(context.new_page(), live_komand.url).open("/login")
    chat.log_in(live_komand.password)
    chat.page.wait_for_url("**/chat/**")
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def new_tab(browser: Browser, live_komand: LiveKomand, logged_in: Any, model_server: ModelServer) -> Iterator[NewTab]:
    """Return a function that opens tabs of a logged-in user, each in its own browser profile. No tab may have problems.

    Animations are off by default: a spinner is drawn sixty times a second.
    """
    contexts: list[BrowserContext] = []
    tabs: list[ChatPage] = []

    def open_tab(**options: Any) -> ChatPage:
        contexts.append(browser.new_context(**{"storage_state": logged_in, "reduced_motion": "reduce", **options}))
        tabs.append(ChatPage(contexts[-1].new_page(), live_komand.url))
        return tabs[-1]

    yield open_tab
    for context in contexts:
        context.close()
    model_server.reset()  # the tests of a worker share it: what is left of one must not answer another
    assert [problem for tab in tabs for problem in tab.problems] == []


@pytest.fixture
def chat(new_tab: NewTab) -> ChatPage:
    """Return a tab with a new chat."""
    return new_tab().open()


@pytest.fixture(scope="package")
def careful(live_komand: LiveKomand) -> str:
    """Create an agent that needs approval to use echo."""
    return create_agent(live_komand, agentId="careful", name="Careful", alwaysAsk=["echo"])


@pytest.fixture(scope="package")
def team(live_komand: LiveKomand) -> str:
    """Return the agent with the tools of workstreams that a new installation has."""
    return "team"


def create_agent(live_komand: LiveKomand, **agent: Any) -> str:
    with httpx2.Client(base_url=f"{live_komand.url}/api", timeout=60) as api:
        who = {"email": "admin@localhost", "password": live_komand.password}
        token = api.post("/auth/login", json=who).json()["data"]["token"]
        made = api.post("/agents", json=agent, headers={"Authorization": f"Bearer {token}"})
        assert made.status_code in (200, 201), made.text
    return str(agent["agentId"])


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """Yield a tab of a site. It may have no problems but requests that are refused."""
    context = chromium.new_context(
        reduced_motion="reduce", color_scheme="light", viewport={"width": 900, "height": 760}
    )
    problems: list[str] = []
    context.on("weberror", lambda error: problems.append(str(error.error)))
    context.on("console", lambda line: problems.extend([line.text] if line.type == "error" else []))
    yield context.new_page()
    context.close()
    assert [problem for problem in problems if "Failed to load resource" not in problem] == []
