"""The conversation component of `@vertesia/ui`, unmodified, in Chromium on a page of another origin."""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Request, expect

from tests.browser.chat_page import SOON, answering, tokens
from tests.browser.conftest import open_chromium
from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer
from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand, start_komand
from tests.surfaces import npm

_INSTALL_SECONDS = 300  # for six hundred packages

pytestmark = [pytest.mark.npm, pytest.mark.timeout(2 * _INSTALL_SECONDS)]

PAGE = "<!doctype html><html lang='en'><title>Site</title><div id='root'></div><script src='/page.js'></script></html>"
START = "/api/v1/agents"


class Site(FakeServer):
    """A site of somebody else. script: of each of its pages."""

    script = b""

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        if request.path == "/page.js":
            return 200, {"Content-Type": "text/javascript"}, self.script
        return 200, {"Content-Type": "text/html"}, PAGE.encode()

    @property
    def origin(self) -> str:
        """Another site than the installation's for a browser, which compares the names of hosts."""
        return f"http://localhost:{self.port}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    nowhere = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"
    with open_chromium(nowhere) as browser:
        yield browser


@pytest.fixture(scope="module")
def site(browser: Browser) -> Iterator[Site]:
    with Site() as server:
        folder = Path(tempfile.mkdtemp())  # not a folder that pytest keeps: 750 MB
        try:
            server.script = _bundle(folder)
        finally:
            npm.discard(folder)
        yield server


def _bundle(folder: Path) -> bytes:
    """Install the component into the folder and return the script of a page that shows it."""
    modules = npm.install(folder, "@vertesia/ui@1.5.0", "esbuild@0.28", seconds=_INSTALL_SECONDS)
    source = shutil.copy(Path(__file__).with_name("conversation.jsx"), folder)
    options = ["--bundle", "--jsx=automatic", "--minify", '--define:process.env.NODE_ENV="production"']
    built = subprocess.run([modules / ".bin" / "esbuild", source, *options], capture_output=True, timeout=120)
    assert built.returncode == 0, built.stderr.decode()
    return built.stdout


@pytest.fixture(scope="module")
def komand(site: Site, model_server: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKomand]:
    """Yield an installation that lets the site in."""
    settings = {
        "OPENAI_BASE_URL": model_server.base_url,
        "OPENAI_API_KEY": "test-key-of-nobody",
        "KOMAND_MODEL": "fake",
        "KOMAND_CORS_ORIGINS": site.origin,
    }
    komand = start_komand(tmp_path_factory.mktemp("embedded"), **settings)
    yield komand
    komand.stop()


class Conversation:
    """The site's page in one tab. starts: requests that began a run; problems: errors of the page and of requests."""

    def __init__(self, page: Page, site: Site) -> None:
        self.page, self._site = page, site
        self.starts: list[Request] = []
        self.problems: list[str] = []
        page.set_default_timeout(SOON)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda line: self.problems.append(line.text) if line.type == "error" else None)
        page.on("request", self._note)

    def _note(self, request: Request) -> None:
        if request.method == "POST" and request.url.endswith(START):
            self.starts.append(request)

    def open(self, run: str = "") -> None:
        self.page.goto(f"{self._site.origin}/{run and f'?run={run}'}")

    def send(self, text: str) -> None:
        box = self.page.get_by_role("textbox", name="Type your message")
        box.fill(text)
        box.press("Enter")

    def choose_mode(self, name: str) -> None:
        self.mode.click()
        self.page.get_by_role("menuitemradio", name=name).click()

    @property
    def mode(self) -> Locator:
        return self.page.get_by_role("button", name="Agent approval mode")

    def shows(self, text: str) -> None:
        """Wait for a paragraph of exactly this text."""
        whole = re.compile(f"^{re.escape(text)}$")
        expect(self.page.get_by_role("paragraph").filter(has_text=whole).first).to_be_visible()

    @property
    def run_id(self) -> str:
        answer = self.starts[-1].response()
        assert answer
        return str(answer.json()["id"])


@pytest.fixture
def conversation(browser: Browser, site: Site, komand: LiveKomand) -> Iterator[Conversation]:
    """Yield an open page. It may have no problems."""
    context = browser.new_context(reduced_motion="reduce", locale="en-US")
    context.add_init_script(f"globalThis.komand = {json.dumps({'url': komand.url, 'key': komand.api_key})}")
    conversation = Conversation(context.new_page(), site)
    conversation.open()
    yield conversation
    context.close()
    assert conversation.problems == []


def test_a_conversation_is_started_continued_and_opened_again(
    conversation: Conversation, model_server: ModelServer
) -> None:
    conversation.send(answering(tokens=40, rate=100, hold=20))
    conversation.shows(tokens(20))
    model_server.go_on()
    conversation.shows(tokens(40))
    (start,) = conversation.starts
    assert start.post_data_json["tool_approval_mode"] == "full_control"

    conversation.send(answering(text="Here is **more**"))
    conversation.shows("Here is more")

    conversation.open(conversation.run_id)
    conversation.shows(tokens(40))
    conversation.shows("Here is more")


def test_an_approval_request_shows_the_whole_call(conversation: Conversation) -> None:
    conversation.choose_mode("Ask for approval")
    content = "# Notes: <!-- 1 --> *all* `of` it"
    conversation.send(answering(tool="write_artifact", args={"path": "files/x.md", "content": content}, text="Written"))
    arguments = json.dumps({"path": "files/x.md", "content": content})
    conversation.shows(f"Approve write_artifact: {arguments}?")
    conversation.page.get_by_role("button", name="Allow once").click()
    conversation.shows("Written")
    conversation.choose_mode("Approve for me")
    expect(conversation.mode).to_have_text("Approve for me")
