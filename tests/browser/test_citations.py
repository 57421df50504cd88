"""Citations in an answer: numbered marks whose passage the pointer shows, and the list of sources below."""

from playwright.sync_api import expect

from tests.browser.chat_page import ChatPage, answering
from tests.fakes.model_server import ModelServer
from tools_app.executions.result_sources import stamped

QUOTE = "Alice drives a <b>red</b> car."
ID = stamped({"sources": [{"uri": "memory:car", "quote": QUOTE}]})["sources"][0]["cite"]


def _line(**directives: object) -> str:
    return answering(**directives)[2:-2]


def test_a_mark_shows_the_passage_that_it_cites(chat: ChatPage, model_server: ModelServer) -> None:
    model_server.script(
        _line(tool="memory_store", args={"key": "car", "text": QUOTE}),
        _line(loop=True, tool="memory_recall", args={"query": "car"}),
        _line(text=f"It is red [{ID}], as you said [{ID}]."),
    )
    chat.ask()
    chat.page.get_by_role("button", name="Allow once").click()
    expect(chat.answers.first.locator(".cited")).to_have_count(2)
    chat.wait_finished()
    for _ in range(2):  # live, and after a reload
        answer = chat.answers.first
        marks = answer.locator(".cited")
        expect(marks).to_have_text(["[1]", "[1]"])
        expect(answer.locator(".text").last).not_to_contain_text(ID)
        marks.first.hover()
        expect(marks.first).to_have_attribute("title", f"car (memory) {QUOTE}")
        listed = answer.get_by_role("region", name="Sources").get_by_role("listitem")
        expect(listed).to_have_count(1)
        expect(listed).to_contain_text(QUOTE)
        chat.page.reload()
