"""A page of another origin with the conversation component of `@vertesia/ui`, and its page object."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Page, Request, expect

from tests.browser.chat_page import SOON, answering
from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer
from tests.support.live_server import LiveKomand
from tests.surfaces import npm

INSTALL_SECONDS = 300  # for six hundred packages
PACKAGES = ("@vertesia/ui@1.5.0", "esbuild@0.28")
_DOCS = Path(__file__).parents[3] / "docs" / "embedding.md"
_HTML = (
    "<!doctype html><html lang='en'><title>Site</title><div id='root'></div><script type=module src=/{}.js></script>"
)
_START = "/api/v1/agents"
# Refused requests, which Chromium reports as errors of the page, are looked at by the tests that cause them.
_REFUSED = "Failed to load resource"


PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)


def line(**directives: object) -> str:
    """Return a line of a script. With `loop`, the model calls tools after the results of others."""
    return answering(**directives)[2:-2]


class Site(FakeServer):
    """A site of somebody else: `/` has a page with all properties, `/docs` the one of docs/embedding.md.

    scripts: by their names.
    properties: of the component, as its package declares them.
    token: answer of the route at which the site's own server issues tokens.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scripts: dict[str, bytes] = {}
        self.properties: list[str] = []
        self.token = ""

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        path = request.path.partition("?")[0]
        if path.endswith(".js"):
            return 200, {"Content-Type": "text/javascript"}, self.scripts[path.strip("/")]
        if path == "/komand-token":
            return 200, {"Content-Type": "text/plain"}, self.token.encode()
        return 200, {"Content-Type": "text/html"}, _HTML.format("docs" if path == "/docs" else "conversation").encode()

    @property
    def origin(self) -> str:
        """Another site than the installation's for a browser, which compares the names of hosts."""
        return f"http://localhost:{self.port}"


def build(site: Site, folder: Path) -> None:
    """Install the component into the folder, and give the site the scripts of both pages."""
    modules = npm.install(folder, *PACKAGES, seconds=INSTALL_SECONDS)
    shutil.copy(Path(__file__).with_name("conversation.jsx"), folder)
    (example,) = re.findall(r"```jsx\n(.*?)```", _DOCS.read_text(), re.DOTALL)
    address = "https://komand.example.org"
    assert example.count(f'"{address}"') == 1
    (folder / "docs.jsx").write_text(example.replace(f'"{address}"', "globalThis.komand.url"))
    options = ["--bundle", "--splitting", "--format=esm", "--jsx=automatic", "--minify", f"--outdir={folder / 'out'}"]
    production = '--define:process.env.NODE_ENV="production"'
    command = [modules / ".bin" / "esbuild", "conversation.jsx", "docs.jsx", *options, production]
    built = subprocess.run(command, cwd=folder, capture_output=True, timeout=120)
    assert built.returncode == 0, built.stderr.decode()
    site.scripts = {script.name: script.read_bytes() for script in (folder / "out").glob("*.js")}
    declared = (modules / "@vertesia/ui/lib/features/agent/chat/ModernAgentConversation.d.ts").read_text()
    declared = declared.partition("interface ModernAgentConversationProps {")[2].partition("\n}")[0]
    site.properties = re.findall(r"^    (\w+)\?:", declared, re.MULTILINE)


class Conversation:
    """The site's page in one tab.

    starts: requests that began a run.
    problems: errors of the page; refused: requests that the installation refused, as `404 GET /path`.
    """

    def __init__(self, browser: Browser, site: Site, komand: LiveKomand) -> None:
        self._site, self._komand = site, komand
        self._context = browser.new_context(
            reduced_motion="reduce", locale="en-US", viewport={"width": 1400, "height": 900}
        )
        self.starts: list[Request] = []
        self.problems: list[str] = []
        self.refused: list[str] = []
        self.page = self._new_page()

    def _new_page(self) -> Page:
        page = self._context.new_page()
        page.set_default_timeout(SOON)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda line: self.problems.append(line.text) if line.type == "error" else None)
        page.on("request", self._note)
        page.on("response", lambda response: self._note_refusal(response.status, response.request))
        return page

    def _note(self, request: Request) -> None:
        if request.method == "POST" and request.url.endswith(_START):
            self.starts.append(request)

    def _note_refusal(self, status: int, request: Request) -> None:
        if status >= 400 and request.url.startswith(self._komand.url):
            path = request.url.removeprefix(self._komand.url).partition("?")[0]
            self.refused.append(f"{status} {request.method} {path}")

    def open(self, run: str = "", path: str = "/", **properties: Any) -> None:
        """Load a page, of a run or of none. properties: of the component at first."""
        script = f"globalThis.komand = {json.dumps({'url': self._komand.url, 'properties': properties})}"
        self._context.add_init_script(script)
        self.page.goto(f"{self._site.origin}{path}{run and f'?run={run}'}")

    def close(self) -> None:
        self._context.close()

    # The host page

    def set(self, **properties: Any) -> None:
        """Change properties of the component; None: without it. Those of functions are named with True."""
        self.page.evaluate("changes => host.set(changes)", properties)

    def value(self, **values: Any) -> None:
        """Set what the host's functions return."""
        self.page.evaluate("values => Object.assign(host.values, values)", values)

    def calls(self, name: str) -> list[list[Any]]:
        """Return the arguments of the component's calls of a callback."""
        found: list[list[Any]] = self.page.evaluate("name => host.calls[name] ?? []", name)
        return found

    def called(self, name: str, *expected: Any) -> None:
        """Wait until a callback was called with these arguments last."""
        self.page.wait_for_function(
            "([name, given]) => JSON.stringify(host.calls[name]?.at(-1)) === JSON.stringify(given)",
            arg=[name, list(expected)],
        )

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages of the run in the long form, as the client reads them."""
        found: list[dict[str, Any]] = self.page.evaluate(
            "id => new Promise((done) => host.client.agents.retrieveMessages(id).then(done))", self.run_id
        )
        return found

    def cut(self) -> None:
        """Cut the tab's connections, and refuse others."""
        self._context.set_offline(True)

    def mend(self) -> None:
        self._context.set_offline(False)

    # The component

    def send(self, text: str) -> None:
        self.box.fill(text)
        self.box.press("Enter")

    def choose_mode(self, name: str) -> None:
        self.mode.click()
        self.page.get_by_role("menuitemradio", name=name).click()

    def choose(self, action: str) -> None:
        """Choose an action of the menu in the header."""
        self.button("More actions").click()
        self.page.get_by_role("menuitem", name=action).click()
        expect(self.page.get_by_role("menuitem")).to_have_count(0)

    def attach(self, action: str) -> None:
        """Choose an action of the menu beside the message box."""
        self.button("Add attachment").click()
        self.page.get_by_role("menuitem", name=action).click()

    def panel(self, name: str) -> None:
        """Open a tab of the right panel."""
        self.page.get_by_role("button", name=re.compile(rf"^{name}( \d+)?$")).first.click()

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def text(self, text: str) -> Locator:
        return self.page.get_by_text(text, exact=True).first

    @property
    def box(self) -> Locator:
        return self.page.get_by_role("textbox", name="Type your message")

    @property
    def question(self) -> Locator:
        return self.page.locator("[data-agent-request-input-overlay]")

    @property
    def mode(self) -> Locator:
        return self.button("Agent approval mode")

    def shows(self, text: str, seconds: float = SOON / 1000) -> None:
        """Wait for a paragraph of exactly this text."""
        whole = re.compile(f"^{re.escape(text)}$")
        paragraph = self.page.get_by_role("paragraph").filter(has_text=whole).first
        expect(paragraph).to_be_visible(timeout=seconds * 1000)

    @property
    def run_id(self) -> str:
        answer = self.starts[-1].response()
        assert answer
        return str(answer.json()["id"])

    @property
    def unexpected(self) -> list[str]:
        return [problem for problem in self.problems if _REFUSED not in problem] + self.refused
