"""The plan, the progress and the batches of a run on the page, live and after a reload."""

from playwright.sync_api import Locator, expect

from tests.browser.chat_page import SOON, ChatPage, answering
from tests.fakes.model_server import ModelServer


def assert_in_view(element: Locator) -> None:
    expect(element).to_be_in_viewport(ratio=1)


def line(**directives: object) -> str:
    return answering(**directives)[2:-2]


def test_a_plan_is_checked_off_live_and_folded_when_it_is_done(chat: ChatPage, model_server: ModelServer) -> None:
    first = [{"goal": "Look <b>around</b>", "status": "in_progress"}, {"goal": "Write"}]
    done = [
        {"id": 1, "goal": "Look <b>around</b>", "status": "completed"},
        {"id": 2, "goal": "Write", "status": "skipped"},
    ]
    progress = {"text": "Reading", "percent": 40, "phase": "Sources"}
    model_server.script(
        line(tools=[["update_plan", {"tasks": first}], ["report_progress", progress]]),
        line(text="I found what I looked for. ", hold=1, loop=True, tool="update_plan", args={"tasks": done}),
        line(tokens=20, hold=5),
    )
    answer = chat.ask()
    plan = answer.locator(".plan")
    expect(plan.locator(".plan-goal")).to_have_text(["Look <b>around</b>: in progress", "Write: pending"], timeout=SOON)
    expect(plan.locator(".plan-count")).to_have_text("0 of 2")
    expect(answer.locator(".run-progress")).to_contain_text("Sources Reading")
    expect(answer.get_by_role("progressbar", name="Progress")).to_have_attribute("value", "40")
    expect(answer.locator(".call:visible")).to_have_count(0)
    chat.page.reload()
    plan = chat.answers.first.locator(".plan")
    expect(plan.locator(".plan-task").first).to_have_attribute("aria-current", "step")
    expect(chat.answers.first.locator(".run-progress")).to_contain_text("Sources Reading")
    model_server.go_on()
    expect(plan.locator(".plan-count")).to_have_text("2 of 2", timeout=SOON)
    expect(plan.locator(".plan-tasks")).to_be_hidden()
    model_server.go_on()
    chat.wait_finished()
    expect(plan.locator(".plan-count")).to_have_text("2 of 2")
    expect(chat.page.locator(".run-progress")).to_have_count(0)
    expect(chat.answers.first.locator(".call")).to_have_count(0)


def test_a_batch_shows_its_items_as_they_end(chat: ChatPage, model_server: ModelServer) -> None:
    items = [{"expression": "6*7"}, {"expression": "1/0"}, {"expression": "2+2"}]
    model_server.script(line(tool="batch", args={"tool": "calculator", "items": items}), line(tokens=20, hold=5))
    answer = chat.ask()
    shown = answer.locator(".batch")
    expect(shown.locator(".batch-count")).to_have_text("3 of 3, 1 failed", timeout=SOON)
    # Open if the page saw the batch run, closed if the page was loaded after its end.
    answer.locator(".call").evaluate("card => { card.open = true }")
    expect(shown.get_by_role("progressbar", name="Items done")).to_have_attribute("value", "3")
    expect(shown.locator(".batch-failures li")).to_have_count(1)
    expect(shown.locator(".batch-failures")).to_contain_text("Item 2:")
    expect(answer.locator(".call")).to_have_count(1)
    model_server.go_on()
    chat.wait_finished()
    chat.page.reload()
    chat.answers.first.locator(".call summary").first.click()
    expect(chat.answers.first.locator(".batch-count")).to_have_text("3 of 3, 1 failed")


def test_a_form_of_questions_is_answered_at_once(chat: ChatPage, model_server: ModelServer) -> None:
    colours = [{"id": "r", "label": "Red"}, {"id": "b", "label": "Blue", "description": "As the <sea>"}]
    chat.page.set_viewport_size({"width": 900, "height": 420})  # the form is higher than the window
    form = [
        {"question": "Which colours?", "options": colours, "multiple": True, "variant": "warning"},
        {"question": "Why?", "placeholder": "Because"},
    ]
    answer = chat.ask(tool="ask_form", args={"questions": form})
    expect(chat.page.locator("#announcer")).to_have_text("Which colours?\nWhy?", timeout=SOON)
    expect(answer.get_by_text("Or write your own answer")).to_have_count(1)
    assert_in_view(answer.locator(".input-request-text").first)
    chat.page.reload()
    answer = chat.answers.first
    assert_in_view(answer.locator(".input-request-text").first)
    answer.get_by_role("checkbox", name="Blue As the <sea>").check()
    answer.get_by_role("checkbox", name="Red").check()
    answer.get_by_placeholder("Because").fill("I like both")
    answer.get_by_role("button", name="Send answer").click()
    chat.wait_finished()
    answers = answer.locator(".answers > div")
    expect(answers).to_have_text(["Which colours?Your answer: Red, Blue", "Why?Your answer: I like both"])
    expect(answer.get_by_role("button", name="Send answer")).to_have_count(0)
    expect(chat.questions).to_have_count(1)
    chat.page.reload()
    expect(answers).to_have_text(["Which colours?Your answer: Red, Blue", "Why?Your answer: I like both"])
    expect(answer.locator(".input-request")).to_be_hidden()
