"""The text of a conversation: older messages, writing directions, formulas, and blocks that are still growing."""

import re
from uuid import uuid4

from playwright.sync_api import Locator, expect

from tests.browser.chat_page import SOON, ChatPage, answering
from tests.browser.conftest import NewTab
from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand

_STORE_TURNS = """
from django.utils import timezone
from sessions_app.models import Session, Turn
stored = Session.objects.get(pk="{session}")
rows = [
    Turn(session=stored, ordinal=1 + n, part=part, role=role, content=f"{{role}} {{n}}", is_answer=bool(part),
         created_at=timezone.now())
    for n in range(40) for part, role in enumerate(["user", "assistant"])
]
Turn.objects.bulk_create(rows)
"""


def test_older_messages_are_shown_up_to_the_first(chat: ChatPage, live_komand: LiveKomand) -> None:
    chat.ask(text="the first")
    chat.wait_finished()
    session = chat.page.url.rpartition("/")[2]
    stored = live_komand.manage("shell", "-c", _STORE_TURNS.format(session=session), seconds=120)
    assert stored.returncode == 0, stored.stderr
    chat.page.reload()
    older = chat.page.get_by_role("button", name="Show older messages")
    view = chat.page.locator("#scroll")
    expect(chat.answers).to_have_count(25)
    older.click()
    expect(chat.answers).to_have_count(41)
    expect(older).to_have_count(0)
    expect(chat.questions.first).to_contain_text("the first")
    # The reader stays where the older messages were added, and does not jump to the end.
    assert view.evaluate("view => view.scrollHeight - view.scrollTop - view.clientHeight") > 500
    # What is out of view is not laid out.
    view.evaluate("view => { view.scrollTop = view.scrollHeight }")
    shown = "answers => answers.map((answer) => answer.checkVisibility({ contentVisibilityAuto: true }))"
    expect(chat.answers.last).to_be_in_viewport()
    laid_out = chat.answers.evaluate_all(shown)
    assert not laid_out[0] and laid_out[-1] and sum(laid_out) < 30


def _x(element: Locator) -> dict[str, float]:
    box = element.bounding_box()
    assert box
    return {"left": box["x"], "right": box["x"] + box["width"]}


def test_right_to_left_text_is_laid_out_from_the_right(chat: ChatPage) -> None:
    text = "مرحبا بالعالم.\n\n- واحد\n- اثنان\n\n> اقتباس\n\n| أ | ب |\n|---|---|\n| ج | د |\n\nplain English."
    answer = chat.ask(text=text)
    chat.wait_finished()
    shown = answer.locator(".markdown")
    for selector, side in (
        ("p >> nth=0", "rtl"),
        ("ul", "rtl"),
        ("blockquote", "rtl"),
        ("table", "rtl"),
        ("p >> nth=-1", "ltr"),
    ):
        expect(shown.locator(selector).first).to_have_css("direction", side)
    assert shown.locator("ul").evaluate("list => getComputedStyle(list).paddingRight") != "0px"
    first, second = shown.locator("th").nth(0), shown.locator("th").nth(1)
    assert _x(first)["left"] > _x(second)["left"]
    chat.box.fill("שלום")
    expect(chat.box).to_have_css("direction", "rtl")
    chat.box.fill("hello")
    expect(chat.box).to_have_css("direction", "ltr")
    chat.send("שלום [[tokens=2]]")
    expect(chat.questions.last.locator(".bubble")).to_have_css("direction", "rtl", timeout=SOON)
    chat.wait_finished()


def test_formulas_keep_their_source(new_tab: NewTab) -> None:
    chat = new_tab(permissions=["clipboard-read", "clipboard-write"]).open()
    source = "So \\(a_1 * b_2\\) and:\n\n\\[\nx = \\frac{a_1}{b}\n- c_2\n\\]\n\nIt costs $5 or $10."
    answer = chat.ask(text=source)
    chat.wait_finished()
    expect(answer.locator(".math.is-shown")).to_have_count(2, timeout=SOON)
    kept = answer.locator(".math").evaluate_all("maths => maths.map(math => math.dataset.source)")
    assert kept == ["\\(a_1 * b_2\\)", "\\[\nx = \\frac{a_1}{b}\n- c_2\n\\]"]
    expect(answer).to_contain_text("It costs $5 or $10.")
    answer.get_by_role("button", name="Copy the answer").click()
    expect(chat.page.locator("#announcer")).to_have_text("Copied")
    assert chat.page.evaluate("navigator.clipboard.readText()") == source


# Notes the shifts that no input explains, markup that is shown, and by how many pixels the conversation shrinks.
_NOTE_SHIFTS = """
    const described = ({node}) => String(node?.outerHTML ?? node?.textContent).slice(0, 80);
    window.shifts = [];
    new PerformanceObserver((list) => {
        for (const {value, sources, hadRecentInput} of list.getEntries())
            if (!hadRecentInput) window.shifts.push([value, sources.map(described)]);
    }).observe({type: "layout-shift", buffered: true});
    window.markup = new Set();
    window.shrunk = 0;
    let height = 0;
    const look = () => {
        const text = document.querySelector(".answer[data-open] .text")?.innerText ?? "";
        for (const found of text.match(/\\*\\*|\\| |^#|^- |```/gm) ?? []) window.markup.add(found);
        const { scrollHeight } = document.getElementById("scroll");
        window.shrunk = Math.max(window.shrunk, height - scrollHeight);
        height = scrollHeight;
        requestAnimationFrame(look);
    };
    addEventListener("DOMContentLoaded", look);
"""

_RICH = (
    "# A heading\n\nSome **bold words**, *slanted* ones, `code` and a [link](https://example.org/a).\n\n"
    "- first **item**\n- second item with more words\n  - inside\n- third\n\n"
    "| Planet | Mass | Remark |\n|---|--:|---|\n| Mercury | 0.33 | the smallest |\n| Venus | 4.87 | hot |\n"
    "| Earth | 5.97 | **home** |\n| Jupiter | 1898.13 | by far the greatest of them, and it has a red spot |\n\n"
    "```python\ndef add(a, b):\n    return a + b\n```\n\n"
    "1. one\n2. two\n\n> a quotation\n\nThe *end* of it."
)


def test_blocks_keep_their_place_while_they_grow(chat: ChatPage, model_server: ModelServer) -> None:
    chat.page.add_init_script(_NOTE_SHIFTS)
    chat.ask(tokens=3)
    chat.wait_finished()
    chat.page.evaluate("window.shifts = []; window.shrunk = 0")  # those of loading the page
    model_server.script(answering(text=_RICH * 2, rate=40)[2:-2])  # a long message would make the box grow and shrink
    chat.ask()
    chat.wait_finished()
    shifts = chat.page.evaluate("window.shifts")
    assert sum(value for value, _ in shifts) < 0.01, shifts
    widths = "tables => tables.map(({ rows }) => [...rows[0].cells].map(({ offsetWidth }) => offsetWidth).join())"
    assert len({*chat.answers.last.locator("table").evaluate_all(widths)}) == 1
    assert chat.answers.last.locator("table").first.evaluate("table => table.style.tableLayout") == "fixed"
    assert chat.page.evaluate("[...window.markup]") == []
    assert chat.page.evaluate("window.shrunk") < 30


_FREEZE = """async (rows) => {
    const { freezeColumns } = await import("/static/js/chat/tables.js");
    const part = document.createElement("div");
    part.className = "markdown";
    const lines = rows.map((cells) => `<tr>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>`).join("");
    const head = "<thead><tr><th>Planet</th><th>Remark</th></tr></thead>";
    part.innerHTML = `<div class="table"><table>${head}<tbody>${lines}</tbody></table></div>`;
    document.querySelector(".column").append(part);
    freezeColumns(part);
    return [...part.querySelectorAll("th")].map(({ style }) => style.width).join();
}"""


def test_columns_are_the_same_however_many_rows_come_at_once(chat: ChatPage) -> None:
    rows = [["Mercury", "the smallest"], ["Venus", "hot"], ["Earth", "home"], ["Jupiter", "by far the greatest of all"]]
    widths = {chat.page.evaluate(_FREEZE, rows[:count]) for count in (3, 4)}
    assert len(widths) == 1 and "px" in widths.pop()


def test_the_text_before_a_long_call_is_rendered(chat: ChatPage) -> None:
    question = {"question": "Which?", "options": ["Red"]}
    answer = chat.ask(tool="ask_user", args=question, text="I **wonder**:\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    expect(answer.locator(".call")).to_have_count(1)
    expect(answer.locator(".text td")).to_have_text(["1", "2"])
    expect(answer.locator(".text strong")).to_have_text("wonder")
    chat.stop.click()
    chat.wait_finished()


def test_reasoning_grows_in_a_fold_and_is_there_after_a_reload(chat: ChatPage, model_server: ModelServer) -> None:
    answer = chat.ask(reasoning="First I look. <b>Then</b> I jump. ", text="The **answer**. " * 30, rate=40, hold=20)
    fold = answer.locator(".reasoning")
    fold.locator("summary").click()
    expect(fold.locator(".reasoning-text")).to_contain_text("First I look. <b>Then</b> I jump.")
    model_server.go_on()
    chat.wait_finished()
    expect(fold.locator(".reasoning-label")).to_have_text(re.compile(r"Thought for \d"))
    expect(fold).to_have_attribute("open", "")
    expect(answer.locator(".text")).not_to_contain_text("I jump")
    chat.page.reload()
    fold = chat.answers.first.locator(".reasoning")
    expect(fold.locator(".reasoning-label")).to_have_text(re.compile(r"Thought for \d"))
    expect(fold.locator(".reasoning-text")).to_be_hidden()


def test_buttons_of_an_answer_are_folded_on_a_phone(new_tab: NewTab) -> None:
    chat = new_tab(viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True).open()
    starters = chat.page.get_by_role("list", name="Suggestions")
    expect(starters).to_be_visible()
    answer = chat.ask(text="Short.")
    chat.wait_finished()
    expect(starters).to_have_count(0)
    good = answer.get_by_role("button", name="Good answer")
    expect(good).to_be_hidden()
    answer.get_by_role("button", name="More about the answer").click()
    good.click()
    expect(good).to_have_attribute("aria-pressed", "true")
    assert chat.page.evaluate("document.documentElement.scrollWidth") == 390
    chat.open(f"/chat/{uuid4()}")
    expect(chat.page.get_by_role("link", name="Short.")).to_be_visible()
    assert chat.page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_queued_message_can_be_taken_back_into_the_box(chat: ChatPage) -> None:
    chat.ask(tokens=2000, rate=40)
    queued = chat.ask(text="mine")
    chat.box.fill("more")
    queued.get_by_role("button", name="Edit").click()
    expect(chat.box).to_have_value(re.compile(r"mine.*\n\nmore", re.DOTALL))
    expect(chat.questions).to_have_count(1)
    expect(chat.page.locator(".removed")).to_have_count(0)
    chat.stop.click()
    chat.wait_finished()


def test_question_and_answer_are_shown_once(chat: ChatPage) -> None:
    answer = chat.ask(tool="ask_user", args={"question": "Which colour?", "options": ["Red", "Dark blue"]})
    answer.get_by_role("button", name="Dark blue").click()
    chat.wait_finished()
    shown = answer.locator(".call").inner_text()
    assert (shown.count("Which colour?"), shown.count("Dark blue"), shown.count("is_option")) == (1, 1, 0)


def test_each_weight_of_the_text_has_the_font_of_the_page(chat: ChatPage) -> None:
    found = "weight => document.fonts.load(`${weight} 16px Inter`, 'a \u0142').then(faces => faces.length)"
    for weight in (400, 500, 600, 700):
        assert chat.page.evaluate(found, weight) == 2, f"weight {weight}: the file of Latin letters and the other one"
