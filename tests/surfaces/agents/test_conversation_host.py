"""Documents, lifecycle and connections of the conversation component, with all that a host gives it."""

import json
import re

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chat_page import answering, tokens
from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand
from tests.surfaces.agents.conversation_page import INSTALL_SECONDS, Conversation, Site, line

pytestmark = [pytest.mark.npm, pytest.mark.timeout(2 * INSTALL_SECONDS)]


def upload(komand: LiveKomand, name: str, content: str) -> str:
    """Upload a file as the server of a host does. Return its id."""
    headers = {"Authorization": f"Bearer {komand.api_key}", "Content-Type": "application/octet-stream"}
    answer = httpx2.post(f"{komand.url}/api/attachments?filename={name}", content=content.encode(), headers=headers)
    return str(answer.json()["data"]["attachmentId"])


def test_documents_are_attached_shown_and_linked(
    conversation: Conversation, komand: LiveKomand, model_server: ModelServer
) -> None:
    terms = upload(komand, "terms.md", "# Terms\n\nNet in 30 days.")
    conversation.open(
        **dict.fromkeys(("getAttachedDocs", "getMessageContext", "renderDocumentSearch", "resourceResolver"), True),
        hideObjectLinking=False,
    )
    conversation.value(adopt=True, documents=[{"id": terms, "name": "Terms"}], document=terms)
    model_server.script(line(text="Read."))
    conversation.send("Read them.")
    conversation.shows("Read.")
    assert "Net in 30 days." in model_server.messages[-1]["content"]
    conversation.page.get_by_role("link", name="Terms").first.click()
    expect(conversation.page.get_by_role("heading", name="Terms")).to_be_visible()
    conversation.button("Back to documents").click()
    expect(conversation.button("terms.md")).to_be_visible()

    conversation.value(documents=[], context={"entity": "e-7"})
    conversation.attach("Attach Documents")
    conversation.page.get_by_role("dialog", name="Search").get_by_role("button", name="Terms").click()
    conversation.page.get_by_role("button", name="Remove Terms").click()
    conversation.called("onRemoveDocument", terms)
    conversation.set(renderDocumentSearch=None, selectedDocuments=[])
    conversation.attach("Link Object")
    conversation.page.get_by_role("cell", name="terms.md").first.click()
    expect(conversation.box).to_have_value(re.compile(r"^\[terms\.md\]\(store:[0-9a-f-]{36}\)$"))
    links = "[Doc](/store/objects/d1), [Own](store:d2), [Set](/store/collections/c1)"
    model_server.script(line(text=f"See {links}."))
    conversation.set(StoreLinkComponent=True, CollectionLinkComponent=True)
    conversation.box.press("Enter")
    conversation.shows("See Doc, Own, Set.")
    expect(conversation.page.locator("[data-document=d1]")).to_have_text("Doc")
    expect(conversation.page.locator("[data-collection=c1]")).to_have_text("Set")
    assert "d2" in json.dumps(conversation.calls("resourceResolver"))
    questions = [message for message in conversation.messages() if message["type"] == 8]
    assert questions[-1]["details"]["metadata"]["entity"] == "e-7"


def test_an_answer_is_filled_with_the_data_of_the_host(conversation: Conversation, model_server: ModelServer) -> None:
    field = {"label": "Vintage", "key": "vintage", "editable": True}
    sections = [{"title": "Fund", "layout": "grid-2", "fields": [{"label": "Name", "key": "fundName"}, field]}]
    fragment = json.dumps({"title": "Overview", "sections": sections})
    conversation.open(fusionData={"fundName": "Tech IV", "vintage": 2024})
    conversation.value(adopt=True)
    model_server.script(line(text=f"Here:\n\n```fusion-fragment\n{fragment}\n```\n\nThat is all."))
    conversation.send("Show it")
    conversation.shows("That is all.")
    expect(conversation.text("Tech IV")).to_be_visible()


def test_a_run_is_stopped_ended_continued_copied_and_downloaded(conversation: Conversation) -> None:
    conversation.open(**dict.fromkeys(("onRestart", "onClone", "onShowDetails", "resetWorkflow", "onClose"), True))
    conversation.value(adopt=True)
    page = conversation.page
    conversation.send(answering(tokens=40, hold=5))
    conversation.shows(tokens(5))
    conversation.called("onAgentWorkingChange", True)
    page.evaluate("host.refs.stop.current()")
    expect(page.get_by_text("You stopped after")).to_be_visible()
    assert [given for (given,) in conversation.calls("onStoppingChange")][-2:] == [True, False]
    page.evaluate("host.refs.send.current('[[text=\"By the host\"]]', {editing_action: {comment: 'x'}})")
    conversation.shows("By the host")
    conversation.called("onShowInputChange", True)
    conversation.called("onAgentWorkingChange", False)
    assert "By the host" in [message["message"] for (message,) in conversation.calls("onMessage")]

    conversation.choose("Details")
    assert len(conversation.calls("onShowDetails")) == 1
    conversation.choose("Clone Conversation")
    page.wait_for_function("() => host.calls.onClone")
    ((copy,),) = conversation.calls("onClone")
    assert copy["forked_from"] == conversation.run_id
    with page.expect_popup() as opened:
        conversation.choose("Download Conversation")
    opened.value.wait_for_load_state()
    whole = json.loads(opened.value.locator("body").inner_text())
    assert "By the host" in [message["message"] for message in whole["messages"]]
    opened.value.close()
    with page.expect_download() as downloaded:
        conversation.choose("Download Messages")
    assert json.loads(downloaded.value.path().read_text())["messages"]

    # A message that is sent before the component has read the status of the ended run is refused, and not sent again.
    with page.expect_response(lambda answer: answer.url.endswith("/internals")):
        conversation.choose("Cancel Workflow")
    conversation.called("resetWorkflow")
    expect(conversation.text("cancel")).to_be_visible()
    conversation.send(answering(text="Back again"))
    conversation.shows("Back again")
    conversation.set(agentRunId=copy["id"])
    conversation.shows("By the host")
    expect(page.get_by_text("Back again")).to_have_count(0)


def test_a_failed_run_shows_why_or_the_action_of_the_host(conversation: Conversation) -> None:
    conversation.open(interactive=False)
    conversation.value(adopt=True, more={"interactive": False})
    conversation.send(answering(status=400, message="No such thing."))
    expect(conversation.page.get_by_text(re.compile("No such thing")).first).to_be_visible()
    expect(conversation.box).to_have_count(0)
    conversation.set(failedAction="Ask somebody")
    expect(conversation.text("Ask somebody")).to_be_visible()


def test_a_cut_connection_a_second_viewer_and_a_killed_worker_lose_nothing(
    conversation: Conversation, browser: Browser, site: Site, komand: LiveKomand, model_server: ModelServer
) -> None:
    conversation.open()
    conversation.value(adopt=True)
    conversation.send(answering(tokens=60, rate=60, hold=20))
    conversation.shows(tokens(20))
    second = Conversation(browser, site, komand)
    second.open(conversation.run_id)
    second.shows(tokens(20))
    conversation.cut()
    komand.kill_runs()
    model_server.go_on(2)
    second.shows(tokens(60), seconds=90)
    conversation.mend()
    conversation.shows(tokens(60), seconds=90)
    conversation.send(answering(text="Both see it"))
    second.shows("Both see it")
    assert second.unexpected == []
    second.close()
    conversation.problems.clear()  # those of the cut connection
