"""A long chat: the work of a change to the whole page does not grow with the number of older turns."""

import json
from statistics import median

import pytest
from playwright.sync_api import expect

from tests.browser.chat_page import ChatPage
from tests.browser.conftest import NewTab
from tests.support.live_server import LiveKomand

TURNS = 300
_FILL = f"""
import os
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "komand.settings.web")
import django
django.setup()
import json
from django.contrib.auth.models import User
from benchmarks.seed_data import fill
from sessions_app.services import open_session
session = open_session(owner=User.objects.get(username="admin"), title="A long one")
fill(session, {2 * TURNS})
print(json.dumps(str(session.pk)))
"""


@pytest.fixture
def long_chat(new_tab: NewTab, live_komand: LiveKomand) -> ChatPage:
    """Return a tab with the newest turns of a long chat."""
    done = live_komand.run("-c", _FILL)
    assert done.returncode == 0, done.stderr
    return new_tab().open(f"/chat/{json.loads(done.stdout)}")


# A new button is taken over by htmx a moment after it is shown.
_SHOW_ALL = """async () => {
    const turns = () => document.querySelectorAll(".turn").length;
    const pause = () => new Promise((done) => setTimeout(done, 100));
    for (let button; (button = document.querySelector("#older button")); await pause()) {
        const shown = turns();
        button.click();
        while (turns() === shown) await pause();
    }
    return turns();
}"""


def _show_all(chat: ChatPage) -> None:
    assert chat.page.evaluate(_SHOW_ALL) == TURNS


def _style_time(chat: ChatPage) -> float:
    """Return the milliseconds that the styles of one change of theme take: the median of some."""
    session = chat.page.context.new_cdp_session(chat.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    times = [_toggled(chat, session) for _ in range(9)]
    return median(times)


def _toggled(chat: ChatPage, session: object) -> float:
    def spent() -> float:
        found = session.send("Performance.getMetrics")["metrics"]  # type: ignore[attr-defined]
        return float(next(each["value"] for each in found if each["name"] == "RecalcStyleDuration"))

    before = spent()
    chat.page.locator("#theme").evaluate("button => { button.click(); document.body.offsetWidth }")
    return (spent() - before) * 1000


def test_a_change_of_the_theme_skips_older_turns(long_chat: ChatPage) -> None:
    expect(long_chat.page.locator("#older")).to_be_visible()
    newest_only = _style_time(long_chat)
    _show_all(long_chat)
    long_chat.page.locator("#scroll").evaluate("view => view.scrollTop = view.scrollHeight")
    assert _style_time(long_chat) < 1.6 * newest_only


def test_older_turns_work_as_the_newest_do(long_chat: ChatPage) -> None:
    _show_all(long_chat)
    earlier = long_chat.page.locator(".earlier").last
    last = earlier.locator(".turn").last
    last.scroll_into_view_if_needed()
    last.hover()
    expect(last.get_by_role("button", name="Generate the answer again")).to_be_hidden()
    first = earlier.locator(".turn").first
    first.scroll_into_view_if_needed()
    first.locator(".about-answer summary").click()
    expect(first).to_have_attribute("data-about", "")
    expect(earlier).to_have_css("content-visibility", "visible")
    first.locator(".about-answer summary").click()
    expect(earlier).to_have_css("content-visibility", "auto")
