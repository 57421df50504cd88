"""Fixtures of the conversation component: one bundle, one installation and one browser for all of its tests."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import open_chromium
from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand, start_komand
from tests.surfaces import npm
from tests.surfaces.agents.conversation_page import Conversation, Site, build


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    nowhere = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"
    with open_chromium(nowhere) as browser:
        yield browser


@pytest.fixture(scope="package")
def site(browser: Browser) -> Iterator[Site]:
    with Site() as server:
        folder = Path(tempfile.mkdtemp())  # not a folder that pytest keeps: 750 MB
        try:
            build(server, folder)
        finally:
            npm.discard(folder)
        yield server


@pytest.fixture(scope="package")
def komand(site: Site, model_server: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKomand]:
    """Yield an installation that lets the site in, which has a session token of admin."""
    settings = {
        "OPENAI_BASE_URL": model_server.base_url,
        "OPENAI_API_KEY": "test-key-of-nobody",
        "KOMAND_MODEL": "fake",
        "KOMAND_CORS_ORIGINS": site.origin,
    }
    komand = start_komand(tmp_path_factory.mktemp("embedded"), **settings)
    site.token = session_token(komand)
    yield komand
    komand.stop()


def session_token(komand: LiveKomand) -> str:
    """Exchange the API key of admin as the server of a site does."""
    headers = {"Authorization": f"Bearer {komand.api_key}"}
    return str(httpx2.post(f"{komand.url}/token/issue", headers=headers).json()["token"])


@pytest.fixture
def conversation(browser: Browser, site: Site, komand: LiveKomand, model_server: ModelServer) -> Iterator[Conversation]:
    """Yield a tab of the site. It may have no problems, and no request may be refused that its test does not expect."""
    model_server.reset()  # answers of other tests may have ended before they were to go on
    conversation = Conversation(browser, site, komand)
    yield conversation
    conversation.close()
    model_server.reset()
    assert conversation.unexpected == []
