"""Connecting a model in a browser: the next answer in the same chat comes from it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewTab
from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand

KEY = "sk-test-0123456789abcdefghij"
TO_DEMO = """
import json
from django.conf import settings
from agents_app.models import Agent, ModelProvider
kept = {str(pk): str(provider) for pk, provider in Agent.objects.values_list("pk", "provider_id")}
(settings.DATA_DIR / "kept.json").write_text(json.dumps(kept))
Agent.objects.update(provider=ModelProvider.objects.get(kind="demo"))
"""
BACK = """
import json
from django.conf import settings
from agents_app.models import Agent
for pk, provider in json.loads((settings.DATA_DIR / "kept.json").read_text()).items():
    Agent.objects.filter(pk=pk).update(provider=provider, model_id="")
"""


@pytest.fixture
def only_demo(live_komand: LiveKomand) -> Iterator[None]:
    """Have only the demo answer during the test."""
    for code in (TO_DEMO, BACK):
        done = live_komand.manage("shell", "-c", code)
        assert done.returncode == 0, done.stderr
        if code == TO_DEMO:
            yield


@pytest.mark.parametrize("options", [{}, {"viewport": {"width": 390, "height": 780}, "color_scheme": "dark"}])
def test_the_next_answer_comes_from_the_connected_model(new_tab: NewTab, only_demo: None, options: dict) -> None:
    chat = new_tab(**options).open()
    page = chat.page
    expect(page.get_by_role("link", name="Connect your model")).to_be_visible()
    chat.send("What is 17*23?")
    expect(chat.answers.first).to_contain_text("391")
    page.wait_for_url("**/chat/*-*")
    here = page.url
    with ModelServer(api_key=KEY) as server:
        chat.open(f"/connect-model?next=/chat/{here.rsplit('/', 1)[1]}")
        page.get_by_label("Address of the server").fill(server.base_url)
        page.get_by_role("button", name="List the models").click()
        expect(page.get_by_role("alert")).to_contain_text("requires an API key")
        page.get_by_label("Key").fill(KEY)
        page.get_by_role("button", name="List the models").click()
        page.locator("select#model").select_option("fake")
        page.get_by_role("button", name="Test").click()
        expect(page.locator("#answer")).to_contain_text("fake answered in")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_role("button", name="Use it").click()
        page.wait_for_url(here)
        expect(chat.ask(text="From the connected model.")).to_contain_text("From the connected model.")
        assert any("From_the" in str(call.body) or "From the" in str(call.body) for call in server.requests)
