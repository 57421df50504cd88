"""Parts of the conversation component: switches, classes, files, questions, and what it shows of refusals."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import jwt
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chat_page import answering, tokens
from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand
from tests.surfaces.agents.conftest import session_token
from tests.surfaces.agents.conversation_page import INSTALL_SECONDS, PIXEL, Conversation, Site, line

pytestmark = [pytest.mark.npm, pytest.mark.timeout(2 * INSTALL_SECONDS)]


def foreign_token(komand: LiveKomand) -> str:
    """Return a session token as another installation would sign it."""
    claims = jwt.decode(session_token(komand), options={"verify_signature": False})
    return jwt.encode(claims, "k" * 64, algorithm="HS256")


def ended_token(komand: LiveKomand) -> str:
    """Return a session token of a login that has ended since."""
    with httpx2.Client(base_url=komand.url) as client:
        login = {"email": "admin@localhost", "password": komand.password}
        data = client.post("/api/auth/login", json=login).json()["data"]
        client.headers["Authorization"] = f"Bearer {data['token']}"
        token = client.post("/token/issue").json()["token"]
        client.post("/api/auth/logout", json={"refreshToken": data["refreshToken"]}).raise_for_status()
        return str(token)


def test_every_property_of_the_component_is_given(site: Site) -> None:
    assert len(site.properties) > 80
    given = "".join(source.read_text() for source in Path(__file__).parent.glob("*conversation*"))
    assert [name for name in site.properties if not re.search(rf"\b{name}\b", given)] == []


def test_every_part_has_a_switch_and_a_class(conversation: Conversation, model_server: ModelServer) -> None:
    conversation.open(
        prependFriendlyMessage="Good morning",
        initialRequestData={"fund": "Tech IV"},
        initialRequestSchema={"type": "object", "properties": {"fund": {"type": "string"}}},
        initialRequestTitle="Your request",
        initialRequestTemplate=True,
        composerContext="About fund 4",
        payloadContent="The payload",
        conversationContent="The talk",
        initialWorkstream="all",
        viewMode="stacked",
        messageListClassName="is-list",
        messageItemClassNames={"cardClassName": "is-item"},
        messageStyleOverrides={"7": {"sender": "Desk"}},
        toolCallGroupClassNames={"rootClassName": "is-call"},
        batchProgressPanelClassNames={"className": "is-batch"},
        streamingMessageClassNames={"className": "is-live"},
        workingIndicatorClassName="is-working",
        messageFilter=True,
        pendingStartMessage="Soon",
        pendingStartTimestamp=1,
        hideUserInput=True,  # these two change nothing
        hideDocumentPanel=True,
    )
    conversation.value(adopt=True)
    page = conversation.page
    batch = {"tool": "calculator", "items": [{"expression": "6*7"}, {"expression": "1/0"}]}
    model_server.script(line(tool="batch", args=batch, first=1), line(text="It is all done now.", hold=3))
    conversation.send("unfit Work")
    for name in ("working", "list", "call", "batch", "live"):
        expect(page.locator(f".is-{name}").first).to_be_attached()
    expect(page.get_by_text("2/2").first).to_be_visible()
    model_server.go_on()
    conversation.shows("It is all done now.")
    expect(page.locator(".is-item").first).to_be_attached()
    for text in ("About fund 4", "The talk", "Desk"):
        expect(conversation.text(text)).to_be_visible()
    # The first request of the host is for runs without messages: a run of Komand has one from its start.
    for text in ("unfit Work", "Good morning", "Your request", "Asked for Tech IV"):
        expect(page.get_by_text(text)).to_have_count(0)
    conversation.panel("Payload")
    expect(conversation.text("The payload")).to_be_visible()

    conversation.set(hideToolCallsInViewMode=["stacked"], hiddenMessageTypes=[13])
    expect(page.locator(".is-call, .is-batch")).to_have_count(0)
    conversation.button("Summary").click()
    conversation.called("onViewModeChange", "sliding")
    conversation.set(hideHeader=True)
    expect(conversation.button("More actions")).to_have_count(0)
    conversation.set(hideHeader=None, headerVariant="compact", title="Not shown")
    expect(conversation.text("Not shown")).to_have_count(0)
    conversation.set(headerVariant=None, isModal=True, onClose=True)
    expect(conversation.button("Close")).to_have_count(0)  # an action of the menu instead
    conversation.choose("Close")
    conversation.set(isModal=None, allowWorkflowControl=False, hideFileUpload=True, hideObjectLinking=True)
    expect(conversation.mode).to_be_disabled()
    expect(conversation.button("Add attachment")).to_have_count(0)
    conversation.set(allowWorkflowControl=True, hideFileUpload=None, hidePlanPanel=True, hideWorkstreamTabs=True)
    expect(conversation.button("Workstreams")).to_have_count(0)
    conversation.set(showRightPanel=False, showPlaybackToggle=False, isUploading=True)
    expect(conversation.button("Payload")).to_have_count(0)
    expect(conversation.button("Debug")).to_have_count(0)
    expect(conversation.box).to_be_disabled()
    own = {"id": "f1", "name": "own.txt", "content_type": "text/plain", "status": "ready", "started_at": 1}
    sent = {"id": "u1", "name": "up.txt", "type": "text/plain"}
    conversation.set(isUploading=None, showRightPanel=True, processingFiles={"f1": own}, uploadedFiles=[sent])
    conversation.panel("Uploads")
    expect(conversation.text("own.txt")).to_be_visible()
    conversation.button("Remove up.txt").click()
    conversation.called("onRemoveFile", "u1")
    conversation.set(uploadedFiles=[], processingFiles=None)
    page.evaluate("host.refs.upload.current([new File(['five'], 'ref.txt', {type: 'text/plain'})])")
    expect(conversation.button("Remove ref.txt")).to_be_visible()
    (files,) = conversation.calls("onProcessingFilesChange")[-1]
    assert [file["name"] for file in files.values()] == ["ref.txt"]
    conversation.set(enablePlayback=True, conversationTab=True, hideMessageInput=True)
    conversation.panel("Conversation")
    conversation.button("Jump to first message").click()
    expect(page.locator("[data-agent-playback-cursor='0']")).to_be_attached()
    expect(conversation.box).to_have_count(0)


def test_files_are_removed_previewed_and_sent_with_a_follow_up(
    conversation: Conversation, model_server: ModelServer
) -> None:
    conversation.open(showArtifacts=True)
    conversation.value(adopt=True)
    page = conversation.page
    conversation.send(answering(text="Hello"))
    conversation.shows("Hello")
    table = {"name": "data.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,2\n"}
    picture = {"name": "p.png", "mimeType": "image/png", "buffer": PIXEL}
    page.locator("input[type=file]").set_input_files([table, picture, {**picture, "name": "other.png"}])
    expect(page.get_by_role("button", name="Remove")).to_have_count(3)
    expect(page.get_by_text("Ready", exact=True)).to_have_count(3)
    conversation.button("Remove other.png").click()
    conversation.panel("Uploads")
    expect(page.get_by_text("data.csv")).to_have_count(2)
    model_server.script(line(text="I see them."))
    conversation.send("And these?")
    conversation.shows("I see them.")
    assert "[Attached image p.png" in model_server.messages[-1]["content"]
    expect(conversation.text("No files uploaded yet")).to_be_visible()
    conversation.panel("Artifacts")
    conversation.button("Files").click()
    conversation.button("data.csv").last.click()
    preview = page.get_by_role("dialog", name="data.csv")
    expect(preview).to_contain_text("1,2")
    with page.expect_download() as downloaded:
        preview.get_by_role("button", name="Download").click()
    assert downloaded.value.path().read_bytes() == table["buffer"]


def test_questions_have_variants_and_answers_of_each_kind(
    conversation: Conversation, model_server: ModelServer
) -> None:
    conversation.open(interactive=False)
    conversation.value(adopt=True)
    asked = conversation.question
    place = {"question": "Where?", "placeholder": "A town", "variant": "info"}
    colour = {"question": "Which?", "options": ["Red", "Blue"], "allow_text": False}
    model_server.script(
        line(tool="ask_form", args={"questions": [place]}),
        line(tool="ask_form", args={"questions": [colour]}, loop=True),
        line(tool="ask_form", args={"questions": [place, colour]}, loop=True),
        line(text="Thanks."),
    )
    conversation.send("Ask me")
    asked.get_by_placeholder("A town").fill("Trier")
    asked.get_by_placeholder("A town").press("Enter")
    expect(asked.get_by_text("Which?")).to_be_visible()
    assert "Trier" in model_server.messages[-1]["content"]
    asked.get_by_role("button", name="Blue").click()
    field = asked.get_by_placeholder("Your answer")
    expect(field).to_be_visible()
    assert '"Blue"' in model_server.messages[-1]["content"]
    field.fill("Trier\nRed")
    asked.get_by_role("button", name="Send").click()
    conversation.shows("Thanks.")
    assert "Trier Red" in model_server.messages[-1]["content"]  # its field has one line
    expect(conversation.box).to_have_count(0)


def expired_token(komand: LiveKomand) -> str:
    """Return a session token that this installation has signed, and whose time is over."""
    claims = jwt.decode(session_token(komand), options={"verify_signature": False})
    own_key = (komand.data_dir / "secrets" / "jwt.key").read_text().strip()
    return jwt.encode({**claims, "exp": datetime.now(UTC) - timedelta(seconds=1)}, own_key, algorithm="HS256")


@pytest.mark.parametrize("token_of", [foreign_token, ended_token, expired_token])
def test_a_refused_token_is_shown_and_can_be_renewed(
    conversation: Conversation, site: Site, komand: LiveKomand, token_of: Callable[[LiveKomand], str]
) -> None:
    good, site.token = site.token, token_of(komand)
    try:
        conversation.open()
        conversation.send("Hello")
        expect(conversation.page.get_by_text("The session token is invalid or expired.").first).to_be_visible()
    finally:
        site.token = good
    assert conversation.refused == ["401 POST /api/v1/agents"]
    conversation.refused.clear()
    conversation.box.press("Enter")
    conversation.shows(tokens(20))


def test_a_foreign_origin_learns_nothing(browser: Browser, komand: LiveKomand) -> None:
    with Site() as foreign:
        foreign.token = session_token(komand)
        page = browser.new_page()
        page.goto(f"{foreign.origin}/komand-token")
        read = "([url, headers]) => fetch(url, {headers}).then((answer) => answer.status, (error) => error.message)"
        headers = {"Authorization": f"Bearer {foreign.token}"}
        assert page.evaluate(read, [f"{komand.url}/api/v1/agents", headers]) == "Failed to fetch"
        page.close()
