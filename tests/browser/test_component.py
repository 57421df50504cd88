"""`<komand-chat>` in pages of another origin: one with a strict policy, one with hostile styles and names."""

import json
import re
from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chat_page import answering
from tests.browser.component_site import App, picture, picture_of, send, send_after_answer
from tests.browser.test_accessibility import find_violations
from tests.fakes.mail_server import PASSWORD, FakeMailServer
from tests.fakes.model_server import ModelServer
from tests.support.engine import until
from tests.support.live_server import LiveKomand


@pytest.fixture(scope="module")
def mails() -> Iterator[FakeMailServer]:
    with FakeMailServer() as server:
        yield server


@pytest.fixture(scope="module")
def app(
    live_komand: LiveKomand,
    careful: str,
    embedding_port: int,
    mails: FakeMailServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[App]:
    folder = tmp_path_factory.mktemp("corner")
    corner = {"origins": [f"http://localhost:{embedding_port}"], "picture": picture(), "transcripts_from": "post"}
    configs = {("web", "corner"): (corner, None), ("email", "post"): (mails.config, {"password": PASSWORD})}
    for (channel, account), (config, secrets) in configs.items():
        (folder / f"{channel}.json").write_text(json.dumps(config))
        options = ["--config", str(folder / f"{channel}.json"), "--access", "open", "--tools", "ask_user"]
        if secrets:
            (folder / "secrets.json").write_text(json.dumps(secrets))
            options += ["--secrets", str(folder / "secrets.json")]
        added = live_komand.manage("channel", "add", channel, account, *options)
        assert added.returncode == 0, added.stderr
    key = {"Authorization": f"Bearer {live_komand.api_key}"}
    with App(port=embedding_port) as server:
        server.url_of = live_komand.url
        server.token = httpx2.post(f"{live_komand.url}/token/issue", headers=key).json()["token"]
        yield server


def test_a_user_of_an_app_with_a_strict_policy_works_with_an_agent(
    page: Page, app: App, embedding_port: int, model_server: ModelServer
) -> None:
    page.goto(f"http://localhost:{embedding_port}/")
    expect(page.get_by_role("heading", name="Helper")).to_be_visible()
    seen = page.locator("komand-chat")
    expect(seen).to_have_attribute("data-seen", "token false, token true, ready")  # a refused token is renewed once
    found = find_violations(page, "start")

    text = "The **answer** is *seven*. " * 8
    send(page, answering(text=text, reasoning="Hm.", rate=40, hold=10))
    growing = page.locator(".answer[data-open] .markdown")
    expect(growing.locator("strong").first).to_have_text("answer")  # rendered while it grows
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    model_server.go_on()
    expect(page.locator(".answer .reasoning")).to_contain_text("Thought")
    expect(page.locator(".answer[data-open]")).to_have_count(0)
    assert "Orders of Ann" in json.dumps(model_server.messages), "the context of the page goes with the message"

    send(page, answering(tool="ask_user", args={"question": "Which colour?", "options": ["Red", "Blue"]}, text="Done."))
    page.get_by_role("button", name="Blue").click()
    expect(page.locator(".answer:not([data-open])")).to_have_count(2)
    files = page.locator("#files")
    files.set_input_files({"name": "b.exe", "mimeType": "application/octet-stream", "buffer": b"b"})
    expect(page.get_by_role("alert")).to_contain_text("b.exe cannot be attached")
    files.set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"a"})
    send(page, answering(tool="echo", args={"text": "hi"}, text="Said."))
    page.get_by_role("button", name="Allow once").wait_for()
    found += find_violations(page, "approval")
    page.emulate_media(color_scheme="dark")
    found += find_violations(page, "dark", runOnly=["color-contrast"])
    page.set_viewport_size({"width": 390, "height": 780})
    found += find_violations(page, "phone")
    page.get_by_role("button", name="Allow once").click()
    expect(page.locator(".answer:not([data-open])")).to_have_count(3)

    page.reload()
    expect(page.locator(".answer:not([data-open])")).to_have_count(3)
    expect(page.locator(".approval")).to_contain_text("Allowed once by admin")
    page.get_by_role("button", name="New chat").click()
    page.get_by_role("button", name="Keep this one").click()
    expect(page.locator(".answer")).to_have_count(3)
    page.get_by_role("button", name="New chat").click()
    page.get_by_role("button", name="Begin a new chat").click()
    expect(page.locator(".answer")).to_have_count(0)
    page.get_by_role("button", name="Hello").click()
    expect(page.locator(".answer:not([data-open])")).to_have_count(1)
    expect(seen).to_have_attribute("data-seen", re.compile("reset, message, run-start, run-end$"))
    assert found == []


def test_a_user_reads_older_messages_and_has_others_join_or_replace_them(
    page: Page, app: App, embedding_port: int, model_server: ModelServer
) -> None:
    roles = ["user", "assistant"] * 60
    history = [{"id": str(n), "role": role, "content": f"{role} {n}"} for n, role in enumerate(roles)]
    new = {"id": "new", "role": "user", "content": answering(text="Begun.")}
    begun = httpx2.post(
        f"{app.url_of}/ag-ui/agents/careful",
        headers={"Authorization": f"Bearer {app.token}"},
        json={"threadId": "long", "runId": "1", "messages": [*history, new]},
        timeout=60,
    )
    assert "RUN_FINISHED" in begun.text
    page.goto(f"http://localhost:{embedding_port}/thread/long")
    expect(page.locator(".answer").last).to_contain_text("Begun.")
    expect(page.locator("#log")).not_to_contain_text("user 0")
    page.get_by_role("button", name="Show older messages").click()
    expect(page.locator(".turn").first).to_contain_text("user 0")

    send(page, answering(text="A long answer. " * 9, rate=40, hold=5))
    expect(page.locator(".answer[data-open] .markdown")).to_contain_text("A long")
    send(page, answering(text="And this."))
    expect(page.locator(".answer[data-open] .joined")).to_contain_text("And this.")
    model_server.go_on()
    expect(page.locator(".answer[data-open]")).to_have_count(0)
    expect(page.locator(".answer").last).to_contain_text("And this.")

    turn = page.locator(".turn").last
    turn.hover()
    turn.get_by_role("button", name="Edit the message").click()
    found = find_violations(page, "editing")
    turn.get_by_label("Changed text").fill(answering(text="Edited."))
    turn.get_by_role("button", name="Send").click()
    expect(page.locator(".answer").last).to_contain_text("Edited.")
    expect(page.get_by_text("A long answer.")).to_have_count(0)
    replaced = str(page.locator(".turn").last.get_attribute("id"))
    page.get_by_role("button", name="Generate the answer again").last.click()
    expect(page.locator(".turn").last).not_to_have_attribute("id", replaced)
    expect(page.locator(".answer[data-open]")).to_have_count(0)
    expect(page.locator(".answer").last).to_contain_text("Edited.")
    good = page.get_by_role("button", name="Good answer").last
    good.click()
    expect(good).to_have_attribute("aria-pressed", "true")
    page.reload()
    expect(good).to_have_attribute("aria-pressed", "true")
    good.click()
    expect(good).to_have_attribute("aria-pressed", "false")
    assert found == []


def test_a_conversation_that_began_elsewhere_goes_on_by_the_id_of_its_session(
    page: Page, app: App, embedding_port: int
) -> None:
    headers, message = {"Authorization": f"Bearer {app.token}"}, {"senderId": "ann", "agentId": "careful"}
    with httpx2.Client(base_url=app.url_of, headers=headers, timeout=60) as rest:
        asked = rest.post("/api/webchat/message", json={**message, "text": answering(text="Over REST.")})
        key = asked.raise_for_status().json()["data"]["sessionId"]
        session = rest.get(f"/api/sessions/{key}").raise_for_status().json()["data"]
        page.goto(f"http://localhost:{embedding_port}/thread/{session['id']}")
        expect(page.locator(".answer").last).to_contain_text("Over REST.")
        send(page, answering(text="Over the component."))
        expect(page.locator(".answer").last).to_contain_text("Over the component.")
        history = rest.get(f"/api/sessions/{key}/history").raise_for_status().json()["data"]
    assert [turn["content"] for turn in history if turn["role"] == "assistant"] == ["Over REST.", "Over the component."]


def test_a_user_switches_between_versions_and_comments_on_an_answer(page: Page, app: App, embedding_port: int) -> None:
    page.goto(f"http://localhost:{embedding_port}/")
    page.get_by_role("button", name="New chat").click()
    send(page, answering(text="One."))
    send_after_answer(page, answering(text="Two."))
    picture_of(page, "component-answered")
    turn = page.locator(".turn").first
    turn.hover()
    turn.get_by_role("button", name="Edit the message").click()
    box = turn.get_by_label("Changed text")
    box.press("Escape")
    expect(turn.get_by_role("button", name="Edit the message")).to_be_focused()
    page.keyboard.press("Enter")
    box.fill(answering(text="Three."))
    box.press("Enter")
    expect(page.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    expect(page.locator(".answer:not([data-open]) .markdown")).to_have_text(["Three."])
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    found = find_violations(page, "versions")

    page.get_by_role("button", name="Earlier version").press("Enter")
    expect(page.locator(".answer .markdown")).to_have_text(["One.", "Two."])
    expect(page.get_by_role("button", name="Later version")).to_be_focused()
    expect(page.locator("#announcer")).to_have_text("Version 1 of 2")
    picture_of(page, "component-versions")
    page.reload()
    expect(page.locator(".answer .markdown")).to_have_text(["One.", "Two."])
    page.get_by_role("button", name="Later version").click()
    expect(page.locator(".answer .markdown")).to_have_text(["Three."])

    page.get_by_role("button", name="Bad answer").click()
    comment = page.get_by_label("Comment on the answer")
    expect(comment).to_be_focused()
    picture_of(page, "component-comment")
    found += find_violations(page, "comment")
    comment.fill("Too short")
    comment.press("Enter")
    expect(page.locator(".feedback-said")).to_have_text("Too short")
    expect(page.get_by_role("button", name="Bad answer")).to_be_focused()
    page.reload()
    expect(page.locator(".feedback-said")).to_have_text("Too short")
    picture_of(page, "component-rated")
    page.get_by_role("button", name="Bad answer").click()
    expect(page.locator(".feedback-said")).to_have_count(0)
    assert found == []


def test_a_page_leaves_parts_out_and_learns_of_files_and_links(page: Page, app: App, embedding_port: int) -> None:
    page.goto(f"http://localhost:{embedding_port}/part")
    expect(page.locator("komand-chat")).to_have_attribute("data-seen", re.compile("ready$"))
    page.evaluate("""() => {
      const chat = document.querySelector("komand-chat");
      const names = (files) => files.map(({ name }) => name).join();
      window.told = [];
      for (const kind of ["files", "message"]) {
        chat.addEventListener(`komand-${kind}`, ({ detail }) => told.push(`${kind} ${names(detail.files)}`));
      }
      chat.addEventListener("komand-link", (event) => { event.preventDefault(); told.push(event.detail.href) });
      chat.attach([new File(["seven"], "n.txt", { type: "text/plain" }), new File(["x"], "x.exe")]);
    }""")
    expect(page.locator("#names")).to_have_text("Attached: n.txt")
    expect(page.get_by_role("alert")).to_contain_text("x.exe cannot be attached")
    link = "[The order](https://orders.example/7)"
    text = answering(tool="calculator", args={"expression": "6*7"}, reasoning="Hm.", text=link)
    send(page, text)
    expect(page.locator(".answer:not([data-open])")).to_have_count(1)
    expect(page.locator(".sent-files")).to_contain_text("n.txt")
    page.locator(".turn").hover()
    expect(page.locator(".reasoning, .call")).not_to_have_count(0)
    for part in (".reasoning", ".call", ".feedback", ".edit-message", ".regenerate"):
        assert page.locator(part).all() and not any(found.is_visible() for found in page.locator(part).all()), part
    page.get_by_role("link", name="The order").last.click()
    assert page.evaluate("told") == ["files n.txt", "files ", "message n.txt", "https://orders.example/7"]
    assert len(page.context.pages) == 1 and page.url.endswith("/part")
    picture_of(page, "component-part")
    send(page, answering(tool="echo", args={"text": "hi"}, text="Said."))
    page.get_by_role("button", name="Allow once").click()
    expect(page.locator(".answer:not([data-open])").last).to_contain_text("Said.")


def test_a_page_with_hostile_styles_and_names_cannot_change_it(page: Page, app: App, embedding_port: int) -> None:
    page.goto(f"http://localhost:{embedding_port}/hostile")
    page.get_by_role("button", name="Ask").click()
    send(page, answering(text="It **works**."))
    expect(page.locator(".answer:not([data-open])")).to_have_count(1)  # its end replaces what was growing
    strong = page.locator(".answer .markdown strong")
    expect(strong).to_be_visible()
    look = strong.evaluate(
        "part => (({ color, letterSpacing, fontSize }) => [color, letterSpacing, fontSize])(getComputedStyle(part))"
    )
    assert look == ["rgb(35, 33, 30)", "normal", "15.5px"]
    expect(page.locator("h1")).to_be_hidden()  # the styles do what they say elsewhere
    assert page.locator("komand-chat").evaluate("part => getComputedStyle(part).opacity") == "1"
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Ask")).to_be_focused()
    expect(page.locator("komand-chat")).to_have_attribute("data-seen", re.compile("open, .*close$"))


def test_a_visitor_is_answered_in_the_page_itself(page: Page, app: App, embedding_port: int) -> None:
    page.goto(f"http://localhost:{embedding_port}/visitor")
    send(page, answering(tool="ask_user", args={"question": "Which colour?", "options": ["Red", "Blue"]}, text="Done."))
    page.get_by_role("group", name="Answers").get_by_role("button", name="Blue").click()
    expect(page.locator(".answer .markdown")).to_have_text(["Done.", "Done."])
    found = find_violations(page, "visitor")
    page.reload()
    expect(page.locator("#log > li")).to_have_count(5)
    shown = [item.get_attribute("class") for item in page.locator("#log > li").all()]
    assert shown == ["own", "answer", "request", "own", "answer"], "each part stays in its place"
    assert found == []


def test_a_visitor_sees_whom_they_write_to_and_takes_the_conversation_along(
    page: Page, app: App, embedding_port: int, mails: FakeMailServer, model_server: ModelServer
) -> None:
    page.goto(f"http://localhost:{embedding_port}/visitor?order=7#secret")
    expect(page.locator("#agent-name")).to_have_text("Ada")
    drawn = page.locator("#picture")
    expect(drawn).to_be_visible()
    colour = drawn.evaluate("part => [...part.getContext('2d').getImageData(36, 36, 1, 1).data]")
    assert colour == [255, 0, 0, 255], "it is drawn, without a permission of the site for pictures"
    by_mail = page.get_by_role("button", name="Send by mail")
    expect(by_mail).to_be_hidden()
    send(page, answering(text="At **nine**."))
    expect(page.locator(".answer .markdown strong")).to_have_text("nine")
    asked = json.dumps(model_server.messages)
    assert "visitor?order=7" in asked and "Title: App" in asked and "page: Orders of Ann" in asked
    assert "secret" not in asked
    by_mail.click()
    found = find_violations(page, "mail")
    dialog = page.get_by_role("dialog", name="Send this conversation")
    dialog.get_by_role("textbox").fill("ann@example.org")
    dialog.get_by_role("button", name="Send").click()
    expect(page.locator(".notice")).to_contain_text("on its way to ann@example.org")
    until(lambda: [mail["To"] for mail in mails.sent] == ["ann@example.org"])
    assert "At nine." in mails.texts()[0]
    assert found == []


def test_the_developer_of_a_page_of_another_origin_reads_what_to_do(
    chromium: Browser, app: App, embedding_port: int
) -> None:
    page = chromium.new_page()
    with page.expect_console_message(lambda line: "Komand: add http://127.0.0.1" in line.text) as line:
        page.goto(app.url)  # by its address, which is another origin
    assert line.value.text.endswith(f"to KOMAND_CORS_ORIGINS of {app.url_of}")
    expect(page.get_by_role("alert")).to_have_text("This page may not show the chat.")
    page.close()
