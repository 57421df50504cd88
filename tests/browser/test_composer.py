"""Files of messages, ratings and details of answers, and the search in messages."""

import re
from io import BytesIO
from typing import Any

from PIL import Image
from playwright.sync_api import Locator, expect

from tests.browser.chat_page import SOON, ChatPage, answering
from tests.fakes.model_server import ModelServer

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360f8cf500f0003860180b18a9e9b0000000049454e44ae426082"
)
# Hands the page a file as the browser does after a drop or a paste.
HAND_OVER = """([selector, kind, name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name, { type: "text/plain" }));
  const options = { bubbles: true, cancelable: true, [kind === "paste" ? "clipboardData" : "dataTransfer"]: data };
  const made = kind === "paste" ? new ClipboardEvent(kind, options) : new DragEvent(kind, options);
  document.querySelector(selector).dispatchEvent(made);
}"""


def file(name: str, data: bytes = b"The word is heron.", media_type: str = "text/plain") -> Any:
    return {"name": name, "mimeType": media_type, "buffer": data}


def photo() -> bytes:
    target = BytesIO()
    Image.new("RGB", (90, 60), "teal").save(target, "PNG")
    return target.getvalue()


def attached(chat: ChatPage) -> Locator:
    return chat.page.locator("#attached li")


def choose(chat: ChatPage, *files: Any) -> None:
    with chat.page.expect_file_chooser() as chooser:
        chat.page.get_by_role("button", name="Attach files").click()
    chooser.value.set_files(list(files))


def test_files_are_attached_removed_and_sent(chat: ChatPage) -> None:
    choose(chat, file("notes.txt"), file("photo.png", PNG, "image/png"))
    chat.page.evaluate(HAND_OVER, ["#message", "paste", "pasted.txt", "from the clipboard"])
    chat.page.evaluate(HAND_OVER, [".main", "drop", "dropped.txt", "from the desktop"])
    expect(attached(chat)).to_have_count(4)
    chat.page.get_by_role("button", name="Remove notes.txt").click()
    expect(attached(chat)).to_have_count(3)
    expect(chat.page.locator("#attached progress:not([hidden])")).to_have_count(0, timeout=SOON)
    chat.send(answering(text="I have read them."))
    chat.page.wait_for_url("**/chat/*-*", timeout=SOON)
    chat.wait_finished()
    for _ in range(2):
        sent = chat.questions.first.locator(".sent-files li")
        expect(sent).to_have_count(3, timeout=SOON)
        expect(sent.nth(0)).to_contain_text("photo.png")
        expect(chat.page.get_by_text("3", exact=True).and_(chat.page.locator("#files-count"))).to_be_visible()
        chat.page.reload()
    with chat.page.expect_download() as download:
        chat.questions.first.get_by_role("link", name="dropped.txt").click()
    assert download.value.path().read_bytes() == b"from the desktop"


def test_a_message_may_have_files_alone(chat: ChatPage) -> None:
    choose(chat, file("notes.txt"))
    expect(chat.page.locator("#attached progress:not([hidden])")).to_have_count(0, timeout=SOON)
    chat.page.get_by_role("button", name="Send", exact=True).click()
    expect(chat.questions.first.locator(".sent-files")).to_contain_text("notes.txt", timeout=SOON)
    expect(chat.questions.first.locator(".bubble")).to_have_count(0, timeout=SOON)
    chat.wait_finished()


def test_files_that_cannot_be_attached_are_named_with_the_reason(chat: ChatPage) -> None:
    note = chat.page.locator("#note")
    choose(chat, file("big.txt", b"a" * 10_000_001))
    expect(note).to_contain_text("big.txt is too large: it has 10.0 MB")
    choose(chat, file("run.exe", b"MZ" + bytes(50), ""))
    expect(note).to_contain_text("run.exe was not added.", timeout=SOON)
    expect(note).to_contain_text("application/x-executable are not accepted", timeout=SOON)
    expect(attached(chat)).to_have_count(0)
    choose(chat, *(file(f"{number}.txt") for number in range(6)))
    expect(note).to_contain_text("A message may have at most 5 files. 5.txt was not added.")
    expect(attached(chat)).to_have_count(5)


def test_an_answer_is_rated_and_its_details_are_shown(chat: ChatPage) -> None:
    chat.ask(text="A strange heron.")
    chat.page.wait_for_url("**/chat/*-*", timeout=SOON)
    chat.wait_finished()
    good, bad = (chat.page.get_by_role("button", name=f"{kind} answer") for kind in ("Good", "Bad"))
    good.click()
    expect(good).to_have_attribute("aria-pressed", "true")
    bad.click()
    expect(bad).to_have_attribute("aria-pressed", "true")  # the form for the comment is this rating's from now on
    chat.page.get_by_label("Comment on the answer").fill("It is too short")
    chat.page.get_by_role("button", name="Save").click()
    expect(chat.page.locator(".feedback")).to_contain_text("It is too short")
    chat.page.reload()
    expect(bad).to_have_attribute("aria-pressed", "true")
    expect(good).to_have_attribute("aria-pressed", "false")
    expect(chat.page.locator(".feedback")).to_contain_text("It is too short")
    bad.click()
    expect(bad).to_have_attribute("aria-pressed", "false")
    chat.page.locator(".about-answer summary").click()
    expect(chat.page.locator(".details").filter(has_text="Model")).to_contain_text("tokens")


def test_the_sidebar_finds_what_was_written_in_messages(chat: ChatPage) -> None:
    chat.ask(text="The bittern hides in the reeds.")
    chat.page.wait_for_url("**/chat/*-*", timeout=SOON)
    chat.wait_finished()
    found = chat.page.url
    chat.open()
    entry = chat.page.locator(".session").filter(has=chat.page.locator(".snippet"))
    box = chat.page.get_by_role("searchbox")
    box.fill("REEDS bittern")
    for _ in range(40):
        chat.page.wait_for_timeout(500)
        if entry.count():
            break
        box.dispatch_event("search")  # again: messages are indexed in the background, behind the answer
    expect(entry.locator("mark").first).to_have_text("bittern")
    box.press("ArrowDown")
    expect(entry.first.get_by_role("link")).to_be_focused()
    chat.page.keyboard.press("ArrowUp")
    expect(box).to_be_focused()
    box.press("Enter")
    expect(chat.answers.first).to_contain_text("The bittern hides")
    assert chat.page.url.partition("?")[0] == found
    # The page stays in its window: nothing makes it higher, and nothing scrolls it.
    assert chat.page.evaluate("[document.documentElement.scrollHeight - innerHeight, scrollY]") == [0, 0]


def test_an_image_is_shown_small_and_the_model_gets_it_if_it_takes_images(
    chat: ChatPage, model_server: ModelServer
) -> None:
    choose(chat, file("photo.png", photo(), "image/png"))
    expect(chat.page.locator("#attached progress:not([hidden])")).to_have_count(0, timeout=SOON)
    chat.send(answering(text="I cannot see it."))
    note = chat.questions.first.get_by_role("note")
    expect(note).to_have_text("Not sent to the model: the model does not accept images.", timeout=SOON)
    picture = chat.questions.first.locator(".sent-files img")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 90
    accept_files(chat, "images")
    try:
        chat.open()
        choose(chat, file("photo.png", photo(), "image/png"))
        expect(chat.page.locator("#attached progress:not([hidden])")).to_have_count(0, timeout=SOON)
        chat.send(answering(text="I see it."))
        expect(chat.answers.first).to_contain_text("I see it.", timeout=SOON)
        chat.wait_finished()
        text, image = model_server.messages[-1]["content"]
        assert "photo.png" in text["text"] and image["image_url"]["url"].startswith("data:image/png;base64,")
        expect(chat.questions.first.get_by_role("note")).to_have_count(0)
    finally:
        accept_files(chat, "what its models are known to accept")


def accept_files(chat: ChatPage, choice: str) -> None:
    """Choose in the admin which files the models of the installation get."""
    chat.open("/admin/agents_app/modelprovider/").page.get_by_role("link", name="openai").first.click()
    chat.page.wait_for_url("**/change/**", timeout=SOON)
    chat.page.locator("#id_accepted_parts").select_option(label=choice)
    chat.page.get_by_role("button", name="Save", exact=True).click()
    chat.page.wait_for_url("**/modelprovider/", timeout=SOON)


def test_a_search_that_failed_opens_nothing_later(chat: ChatPage) -> None:
    chat.ask(text="An answer.")
    chat.page.wait_for_url("**/chat/*-*", timeout=SOON)
    chat.wait_finished()
    chat.open()
    address, box = chat.page.url, chat.page.get_by_role("searchbox")
    with chat.page.expect_response(re.compile(r"/chat/sessions\?.*q=An")):  # no other that the page asked for
        box.fill("An answer")
    chat.page.route("**/chat/sessions**", lambda route: route.fulfill(status=503, body=""))
    with chat.page.expect_response(lambda response: response.status == 503):
        box.press("Enter")
    chat.page.unroute("**/chat/sessions**")
    with chat.page.expect_response("**/chat/sessions**"):
        box.fill("")
    expect(chat.page.locator("#sessions a").first).to_be_visible()
    chat.page.wait_for_function("() => !document.querySelector('.htmx-request, .htmx-settling')")
    assert chat.page.url == address
    chat.problems.clear()  # the browser reports the response
