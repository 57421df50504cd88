"""A conversation on the page: streamed, with tools, over reloads, lost connections, stops and errors."""

import json
import re

from playwright.sync_api import Page, Route, WebSocketRoute, expect

from tests.browser.chat_page import SOON, ChatPage, answering, tokens
from tests.browser.conftest import NewTab
from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand, wait_for

TWO_TOOLS = [["calculator", {"expression": "17*23"}], ["date_time", {"timezone": "Asia/Tokyo"}]]


def test_an_answer_streams_in_and_is_whole_at_the_end(chat: ChatPage, model_server: ModelServer) -> None:
    answer = chat.ask(tokens=60, rate=40, hold=30)
    expect(answer).to_contain_text("tok29", timeout=SOON)
    model_server.go_on()
    chat.wait_finished()
    assert tokens(60) in answer.inner_text()


def test_two_tool_calls_become_one_line_between_the_texts(chat: ChatPage) -> None:
    answer = chat.ask(tools=TWO_TOOLS, text="So it **is**.")
    chat.wait_finished()
    cards = answer.locator(".call")
    expect(cards).to_have_count(2)
    line = answer.locator(".calls > summary")
    expect(line).to_have_text(re.compile(r"2 tools\s+calculator, \w+\s+\d+(\.\d)? m?s"))
    line.click()
    expect(cards.nth(0)).to_contain_text("calculator")
    expect(cards.nth(0)).to_contain_text(re.compile(r"done\s+\d+(\.\d)? m?s"))
    cards.nth(0).locator("summary").click()
    expect(cards.nth(0)).to_contain_text('"result": "391"')
    places = answer.locator(".parts > *").evaluate_all("parts => parts.map(part => part.className)")
    assert places == ["text", "calls", "text"]
    expect(answer.locator("strong")).to_have_count(2)


def test_a_failed_call_opens_its_card(chat: ChatPage) -> None:
    answer = chat.ask(tool="calculator", args={"expression": "1/0"}, text="Oh.")
    chat.wait_finished()
    expect(answer.locator(".call[open] .call-state")).to_contain_text("failed")
    expect(answer.locator(".call-error")).to_be_visible()


def test_a_reload_during_an_answer_shows_everything_and_continues(chat: ChatPage, model_server: ModelServer) -> None:
    answer = chat.ask(tokens=120, rate=40, hold=40)
    expect(answer).to_contain_text("tok20", timeout=SOON)
    chat.page.reload()
    expect(chat.answers.first).to_contain_text("tok0 tok1 tok2", timeout=SOON)
    model_server.go_on()
    chat.wait_finished()
    assert tokens(120) in chat.answers.first.inner_text()
    expect(chat.questions).to_have_count(1)


def test_a_reload_between_tool_rounds_keeps_cards_in_place(chat: ChatPage) -> None:
    answer = chat.ask(tools=TWO_TOOLS, text=tokens(100), rate=60)
    expect(answer.locator(".call")).to_have_count(2, timeout=SOON)
    chat.page.reload()
    expect(chat.answers.first.locator(".call")).to_have_count(2)
    chat.wait_finished()
    places = chat.answers.first.locator(".parts > *").evaluate_all("parts => parts.map(part => part.className)")
    assert places == ["text", "calls", "text"]


# All that the banner says, some of it for a moment only.
_NOTE_BANNER = """
    window.told = [];
    addEventListener("DOMContentLoaded", () => {
        const banner = document.getElementById("banner");
        const note = () => window.told.push(banner.textContent);
        new MutationObserver(note).observe(banner, {subtree: true, childList: true, characterData: true});
    });
"""


def test_a_cut_connection_causes_no_gap_and_no_duplicate(chat: ChatPage, model_server: ModelServer) -> None:
    opened = _cut_at(chat.page, "tok20")
    chat.page.add_init_script(_NOTE_BANNER)
    answer = chat.ask(tokens=150, rate=40, hold=75)
    wait_for(lambda: "Trying again in 1 s" in chat.page.evaluate("window.told.join()"), what="the wait before a try")
    model_server.go_on()
    chat.wait_finished()
    expect(chat.banner).to_be_hidden()
    assert len(opened) == 2
    assert answer.locator(".markdown").inner_text() == tokens(150)


def _cut_at(page: Page, word: str) -> list[str]:
    """Cut the first connection at the message with that word, and return the addresses that are opened."""
    opened: list[str] = []

    def connect(socket: WebSocketRoute) -> None:
        opened.append(socket.url)
        server, is_first = socket.connect_to_server(), len(opened) == 1
        cut: list[object] = []

        def bring(message: str | bytes) -> None:
            if is_first and not cut and word in str(message):
                cut.append(message)
                server.close()
                socket.close(code=4000)
            elif not cut:
                socket.send(message)

        server.on_message(bring)

    page.route_web_socket(re.compile(r"/ws/chat/"), connect)
    return opened


def test_updates_after_missing_text_are_shown(chat: ChatPage, model_server: ModelServer) -> None:
    opened: list[str] = []

    def connect(socket: WebSocketRoute) -> None:
        opened.append(socket.url)
        socket.connect_to_server().on_message(lambda message: socket.send(_with_a_gap(str(message))))

    chat.page.route_web_socket(re.compile(r"/ws/chat/"), connect)
    answer = chat.ask(tokens=20, hold=10)
    expect(answer).to_contain_text("tok5", timeout=SOON)
    model_server.go_on()
    chat.wait_finished()
    assert answer.locator(".markdown").inner_text() == tokens(20)
    assert len(opened) > 1, "the page reconnects first"


def _with_a_gap(message: str) -> str:
    """Return the message with a piece of text before the answer whose offset leaves a gap."""
    data = json.loads(message)
    for place, act in enumerate(data.get("acts", ())):
        if act["do"] == "answer":
            piece = {"offset": 999, "text": "?", "blocks": [], "draft": None}
            data["acts"].insert(place, {"do": "text", "run": act["run"], "step": 0, **piece})
            break
    return json.dumps(data)


def test_a_restart_of_the_web_server_is_survived(chat: ChatPage, live_komand: LiveKomand) -> None:
    chat.expects_refusals = True
    answer = chat.ask(tokens=240, rate=40)
    expect(answer).to_contain_text("tok5", timeout=SOON)
    pid = live_komand.kill("web")
    expect(chat.banner).to_be_visible(timeout=SOON)
    live_komand.wait_healthy("web", other_than=pid)
    chat.wait_finished()
    assert answer.locator(".markdown").inner_text() == tokens(240)
    expect(chat.page.locator("#note")).to_be_empty()


def test_the_page_gives_up_after_ten_tries_until_the_network_is_back(chat: ChatPage) -> None:
    chat.ask(tokens=3)
    chat.wait_finished()
    is_away = True

    def connect(socket: WebSocketRoute) -> None:
        if is_away:
            socket.close(code=4000)
        else:
            socket.connect_to_server()

    chat.page.clock.install()
    chat.page.route_web_socket(re.compile(r"/ws/chat/"), connect)
    chat.page.reload()

    def has_given_up() -> bool:
        chat.page.clock.run_for(5_000)
        return chat.page.get_by_role("button", name="Reconnect").is_visible()

    wait_for(has_given_up, 60, "the end of its tries")
    expect(chat.banner).to_contain_text("The connection is lost.")
    is_away = False
    chat.page.evaluate("dispatchEvent(new Event('online'))")
    expect(chat.banner).to_be_hidden(timeout=SOON)


def test_two_tabs_show_the_same(chat: ChatPage, new_tab: NewTab) -> None:
    chat.ask(tokens=80, rate=40)
    other = new_tab().open(chat.page.url.removeprefix(chat.url))
    expect(other.answers.first).to_contain_text("tok0", timeout=SOON)
    other.send(answering(tokens=5))
    expect(chat.questions).to_have_count(2, timeout=SOON)
    for tab in (chat, other):
        tab.wait_finished()
    expect(chat.answers.nth(1)).to_contain_text(tokens(5), timeout=SOON)
    assert chat.page.locator("#log").inner_text() == other.page.locator("#log").inner_text()


def test_stop_keeps_the_text_so_far(chat: ChatPage) -> None:
    answer = chat.ask(tokens=2000, rate=40)
    expect(answer).to_contain_text("tok10", timeout=SOON)
    chat.stop.click()
    chat.wait_finished()
    expect(answer).to_contain_text("Stopped")
    expect(answer).to_contain_text("tok0 tok1")
    expect(chat.stop).to_be_hidden()
    expect(chat.page.get_by_role("button", name="Send", exact=True)).to_be_visible()


def test_an_error_shows_its_cause_and_can_be_retried(chat: ChatPage) -> None:
    answer = chat.ask(status=401)
    chat.wait_finished()
    expect(answer.locator(".problem")).to_be_visible()
    answer.get_by_role("button", name="Try again").click()
    expect(chat.answers).to_have_count(2, timeout=SOON)
    chat.wait_finished()
    expect(chat.questions).to_have_count(1)
    expect(chat.page.get_by_role("button", name="Try again")).to_have_count(1)


def test_a_busy_model_is_waited_for_with_a_countdown(chat: ChatPage) -> None:
    answer = chat.ask(status=429, retry_after="9")
    expect(answer.locator(".status")).to_contain_text(
        re.compile(r"is busy: it received too many requests\. Trying again in \d s"), timeout=SOON
    )
    chat.stop.click()
    chat.wait_finished()


def test_messages_are_queued_and_can_be_withdrawn(chat: ChatPage) -> None:
    first = chat.ask(tokens=2000, rate=40)
    second, third = chat.ask(tokens=3), chat.ask(tokens=4)
    expect(second).to_contain_text("Queued, next")
    expect(third).to_contain_text("Queued, 2nd in line")
    second.get_by_role("button", name="Remove").click()
    expect(third).to_contain_text("Queued, next", timeout=SOON)
    removed = chat.page.locator(".removed")
    expect(removed).to_contain_text("Message removed")
    expect(chat.questions.filter(has_text="tokens=3")).to_be_hidden()
    removed.get_by_role("button", name="Undo").click()
    expect(chat.box).to_have_value("[[tokens=3]]")
    expect(removed).to_have_count(0)
    expect(first).to_have_attribute("data-open", "")
    chat.stop.click()
    expect(chat.answers.last).to_contain_text(tokens(4), timeout=SOON)
    chat.page.reload()
    expect(chat.questions).to_have_count(2)


def test_a_stopped_answer_can_be_tried_again_while_another_message_was_removed(chat: ChatPage) -> None:
    first = chat.ask(tokens=2000, rate=40)
    second = chat.ask(tokens=3)
    second.get_by_role("button", name="Remove").click()
    expect(chat.page.locator(".removed")).to_be_visible()
    chat.stop.click()
    expect(first.get_by_role("button", name="Try again")).to_be_visible(timeout=SOON)


def test_a_message_without_a_network_is_sent_when_it_is_back(chat: ChatPage) -> None:
    chat.ask(text="One.")
    chat.wait_finished()
    chat.expects_refusals = True
    chat.page.context.set_offline(True)
    chat.send(answering(text="Two."))
    sending = chat.page.locator(".sending")
    expect(sending).to_contain_text("Not sent: there is no network.", timeout=SOON)
    chat.page.context.set_offline(False)
    expect(chat.answers.last).to_contain_text("Two.", timeout=SOON)
    expect(sending).to_have_count(0)
    expect(chat.questions).to_have_count(2)


def test_messages_of_a_new_chat_without_a_network_create_one_chat(new_tab: NewTab) -> None:
    chat = new_tab().open()
    chat.expects_refusals = True
    starts: list[str] = []
    chat.page.on("requestfinished", lambda request: starts.append(request.url) if request.method == "POST" else None)
    chat.page.context.set_offline(True)
    for text in ("One.", "Two."):
        chat.send(answering(text=text))
        expect(chat.page.locator(".sending[data-offline]")).to_have_count(1 if text == "One." else 2)
    chat.page.context.set_offline(False)
    expect(chat.answers.last).to_contain_text("One.", timeout=SOON)
    expect(chat.questions).to_have_count(1)
    assert len(starts) == 1
    chat.open()
    expect(chat.answers.last).to_contain_text("Two.", timeout=SOON)


def test_a_message_that_was_not_sent_survives_a_reload(chat: ChatPage) -> None:
    chat.ask(text="One.")
    chat.wait_finished()
    chat.expects_refusals = True
    chat.page.route("**/messages", lambda route: route.abort())
    chat.send(answering(text="Two."))
    expect(chat.page.locator(".sending-failed")).to_contain_text("May have been sent", timeout=SOON)
    chat.page.reload()
    expect(chat.page.locator(".sending-failed")).to_contain_text("May have been sent", timeout=SOON)
    chat.page.unroute("**/messages")  # the page tries again by itself
    expect(chat.answers.last).to_contain_text("Two.", timeout=SOON)
    expect(chat.questions).to_have_count(2)
    chat.page.reload()
    expect(chat.answers).to_have_count(2)
    expect(chat.page.locator(".sending")).to_have_count(0)


def test_a_double_click_is_one_message(chat: ChatPage) -> None:
    chat.ask(tokens=3)
    chat.wait_finished()
    chat.box.fill(answering(tokens=4))
    chat.page.get_by_role("button", name="Send", exact=True).dblclick()
    chat.wait_finished()
    expect(chat.questions).to_have_count(2)


def test_a_message_that_did_not_arrive_can_be_sent_again_once(chat: ChatPage) -> None:
    chat.ask(tokens=3)
    chat.wait_finished()

    def lose_the_answer(route: Route) -> None:
        route.fetch()  # it arrives, but the browser does not learn of it
        route.abort()

    chat.expects_refusals = True
    chat.page.route("**/messages", lose_the_answer)
    chat.send(answering(tokens=4))
    chat.wait_finished()
    expect(chat.answers).to_have_count(2, timeout=SOON)
    chat.page.reload()
    expect(chat.questions).to_have_count(2)


def test_a_refused_message_shows_the_reason_and_can_be_edited(chat: ChatPage) -> None:
    chat.ask(tokens=3)
    chat.wait_finished()
    chat.expects_refusals = True
    chat.send("x" * 10_001)
    problem = chat.page.locator(".sending-problem")
    expect(problem).to_contain_text("at most 10,000 are allowed")
    expect(problem).to_contain_text("Reference:")
    chat.page.get_by_role("button", name="Edit", exact=True).click()
    expect(chat.box).to_have_value("x" * 10_001)
    expect(chat.page.locator("#count")).to_have_text("10,001 of 10,000")
    expect(chat.questions).to_have_count(1)
