"""The conversation component of `@vertesia/ui`, unmodified, in Chromium on a page of another origin."""

import json
import re

import pytest
from playwright.sync_api import expect

from tests.browser.chat_page import answering, tokens
from tests.fakes.model_server import ModelServer
from tests.surfaces.agents.conversation_page import INSTALL_SECONDS, PIXEL, Conversation, line

pytestmark = [pytest.mark.npm, pytest.mark.timeout(2 * INSTALL_SECONDS)]


def test_the_page_of_the_docs_starts_continues_and_reopens_a_conversation(
    conversation: Conversation, model_server: ModelServer
) -> None:
    conversation.open(path="/docs")
    conversation.send(answering(tokens=40, rate=100, hold=20))
    conversation.shows(tokens(20))
    model_server.go_on()
    conversation.shows(tokens(40))
    (start,) = conversation.starts
    assert start.post_data_json["tool_approval_mode"] == "full_control"
    expect(conversation.mode).to_have_text("Ask for approval")  # in force with this agent

    conversation.send(answering(text="Here is **more**"))
    conversation.shows("Here is more")
    assert f"?run={conversation.run_id}" in conversation.page.url
    conversation.page.reload()
    conversation.shows(tokens(40))
    conversation.shows("Here is more")


def test_an_approval_request_shows_the_whole_call(conversation: Conversation) -> None:
    conversation.open()
    conversation.choose_mode("Ask for approval")
    content = "# Notes: <!-- 1 --> *all* `of` it"
    conversation.send(answering(tool="write_artifact", args={"path": "files/x.md", "content": content}, text="Written"))
    arguments = json.dumps({"path": "files/x.md", "content": content})
    conversation.shows(f"Approve write_artifact: {arguments}?")
    conversation.button("Allow once").click()
    conversation.shows("Written")
    conversation.choose_mode("Approve for me")
    expect(conversation.mode).to_have_text("Approve for me")


def test_the_start_view_takes_its_properties_and_files(conversation: Conversation, model_server: ModelServer) -> None:
    conversation.open(
        title="Fund desk",
        placeholder="Type your message to the desk",
        startButtonText="Begin",
        initialMessage="Ask about a fund.",
        initialToolApprovalMode="ask",
        startViewVariant="expanded-composer",
        inputContainerClassName="is-box",
        inputClassName="is-field",
        className="is-root",
        acceptedFileTypes=".txt,.png",
        maxFiles=2,
        fullWidth=True,
        onClose=True,
        getAttachedDocs=True,
    )
    page = conversation.page
    for text in ("Fund desk", "Ask about a fund.", "Ask for approval"):
        expect(conversation.text(text)).to_be_visible()
    expect(page.locator(".is-root .is-box .is-field")).to_have_attribute("placeholder", "Type your message to the desk")
    expect(conversation.button("Begin")).to_be_disabled()
    conversation.button("Close").click()
    conversation.called("onClose")
    field = page.locator("input[type=file]")
    expect(field).to_have_attribute("accept", ".txt,.png")
    picture = {"name": "p.png", "mimeType": "image/png", "buffer": PIXEL}
    note = {"name": "Büro 1.txt", "mimeType": "text/plain", "buffer": b"Rent: 5"}
    field.set_input_files([note, picture, {**picture, "name": "third.png"}])
    expect(page.get_by_text("staged")).to_have_count(2)

    conversation.value(adopt=True, documents=[])
    model_server.script(line(text="I wait."), line(text="I have both."))
    conversation.box.fill("Look")
    conversation.button("Begin").click()
    conversation.shows("I have both.")
    conversation.called("onAttachmentsSent")
    sent = model_server.messages[-1]["content"]
    assert "[Files Ready]" in sent and "files/Büro 1.txt" in sent and "[Attached image p.png" in sent


def test_a_plan_a_batch_files_and_a_question_reach_their_panels(
    conversation: Conversation, model_server: ModelServer
) -> None:
    conversation.open(showArtifacts=True, payloadContent="The payload")
    conversation.value(adopt=True, interaction="team")
    tasks = [{"goal": "Look around", "status": "in_progress"}, {"goal": "Write"}]
    report = {"path": "out/report.md", "content": "# Report\n\nIt is fine."}
    colours = [{"id": "r", "label": "Red", "description": "warm"}, {"id": "b", "label": "Blue"}]
    question = {"question": "Which colours?", "options": colours, "multiple": True, "variant": "success"}
    model_server.script(
        line(tools=[["update_plan", {"tasks": tasks}], ["write_artifact", report]]),
        line(
            tool="batch",
            args={"tool": "calculator", "items": [{"expression": "6*7"}, {"expression": "1/0"}]},
            loop=True,
        ),
        line(tool="ask_form", args={"questions": [question]}, loop=True),
        line(text="See [the report](artifact:out/report.md)."),
    )
    conversation.send("Work")
    asked = conversation.question
    expect(asked.get_by_text("warm")).to_be_visible()
    asked.get_by_label(re.compile("Red")).check()
    asked.get_by_label(re.compile("Blue")).check()
    asked.get_by_role("button", name="Submit Selection (2)").click()
    conversation.shows("See the report.")
    assert '"ids": ["r", "b"]' in model_server.messages[-1]["content"]

    page = conversation.page
    expect(page.get_by_text("0/2 completed")).to_be_visible()
    expect(conversation.text("Look around")).to_be_visible()
    (plans, active), (statuses,) = (
        conversation.calls("onPlansChange")[-1],
        conversation.calls("onWorkstreamStatusChange")[-1],
    )
    assert [task["goal"] for task in plans[active]["plan"]["plan"]] == ["Look around", "Write"] and statuses
    conversation.button("Verbose").click()
    expect(conversation.text("2/2")).to_be_visible()
    conversation.button("Summary").click()

    conversation.panel("Artifacts")
    conversation.button("Out").click()
    conversation.button("report.md").last.click()
    expect(page.get_by_role("heading", name="Report")).to_be_visible()
    conversation.button("Edit mode").click()
    editor = page.get_by_role("textbox", name="Markdown document editor")
    editor.click()
    page.keyboard.press("Control+End")
    with page.expect_response(lambda answer: answer.request.method == "PUT") as saved:
        page.keyboard.type(" Very fine.")
    assert saved.value.status == 200
    with page.expect_download() as downloaded:
        conversation.button("Download").click()
    assert "It is fine. Very fine." in downloaded.value.path().read_text()


def test_workstreams_have_tabs_of_their_own(conversation: Conversation, model_server: ModelServer) -> None:
    conversation.open()
    conversation.value(adopt=True, interaction="team")
    news = {"id": "news", "name": "News", "instruction": answering(text="It is calm. [[text=Done]]", hold=2)}
    conversation.send(answering(tool="launch_workstream", args=news, text="They work."))
    conversation.shows("They work.")
    conversation.panel("Workstreams")
    expect(conversation.text("Running")).to_be_visible()
    conversation.page.get_by_role("button", name="News").first.click()
    model_server.go_on()
    conversation.shows("It is calm. [[text=Done]]")
    expect(conversation.text("Completed")).to_be_visible()
