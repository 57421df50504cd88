"""Workstreams on the page: cards in the answer of their parent, live and after a reload."""

from playwright.sync_api import Locator, expect

from tests.browser.chat_page import SOON, ChatPage, answering
from tests.browser.conftest import NewTab
from tests.browser.test_accessibility import find_violations
from tests.fakes.model_server import ModelServer

QUESTION = {"question": "Which currency?", "options": ["EUR", "USD"]}


def launch(name: str, title: str, **directives: object) -> list[object]:
    """Return the call that launches a workstream, which answers by these directives of the model server."""
    return ["launch_workstream", {"id": name, "name": title, "instruction": answering(**directives)}]


def card(chat: ChatPage, title: str) -> Locator:
    return chat.page.locator(".workstream").filter(has=chat.page.locator(".workstream-name", has_text=title))


def test_workstreams_are_cards_that_ask_and_end_live_and_are_the_same_after_a_reload(
    new_tab: NewTab, team: str, model_server: ModelServer
) -> None:
    chat = new_tab().open(f"/chat/new?agent={team}")
    asking = launch("prices", "Price list", tool="ask_user", args=QUESTION, text="Prices are **listed**.")
    # The last result reaches the parent, whose next answer it sets.
    writing = launch("news", "News", text="It is calm in all of the world. " + answering(text="All done."), hold=5)
    chat.ask(tools=[asking, writing], text="They work.")
    prices, news = card(chat, "Price list"), card(chat, "News")
    for _ in ("live", "after a reload"):
        expect(prices.get_by_role("button", name="EUR")).to_be_visible(timeout=SOON)
        expect(prices.locator("> summary .call-state")).to_contain_text("asks a question")
        expect(prices.get_by_text("Asked by this workstream")).to_be_visible()
        expect(news.locator("> summary .call-state")).to_contain_text("planning")
        expect(news.locator(".text")).to_be_hidden()
        news.locator("> summary").click()
        expect(news.locator(".text")).to_have_text("It is calm in all", timeout=SOON)
        expect(chat.answers.first.locator("> .parts > .call:visible")).to_have_count(0)
        expect(chat.answers.first.locator("> .parts > .text", has_text="calm")).to_have_count(0)
        chat.page.reload()
    prices.get_by_role("button", name="EUR").click()
    expect(prices.locator("> summary .call-state")).to_contain_text("done", timeout=SOON)
    expect(prices.locator(".workstream-result strong")).to_have_text("listed")
    model_server.go_on()
    chat.wait_finished()
    for _ in ("live", "after a reload"):
        expect(chat.page.locator(".workstream > summary .call-state.is-done")).to_have_count(2)
        expect(news.locator(".workstream-result")).to_contain_text("It is calm in all of the world.")
        expect(chat.answers.first.locator("> .parts > .text").last).to_have_text("All done.")
        expect(chat.page.locator(".call .call-name", has_text="launch_workstream")).to_have_count(0)
        expect(news.locator("[aria-label=Task]")).to_contain_text("It is calm")
        chat.page.reload()
        expect(chat.answers.first).to_be_visible()


def test_a_person_writes_to_a_workstream_that_waits_and_pauses_and_resumes_it(new_tab: NewTab, team: str) -> None:
    chat = new_tab().open(f"/chat/new?agent={team}")
    waiting = launch("deep", "Deep one", text="Ready.")
    waiting[1]["interactive"] = True  # type: ignore[index]
    writing = launch("news", "News", text="It is calm. " + answering(text="All done."), hold=3)
    chat.ask(tools=[waiting, writing], text="They work.")
    deep, news = card(chat, "Deep one"), card(chat, "News")
    state = deep.locator("> summary .call-state")
    expect(state).to_contain_text("waiting for a message", timeout=SOON)
    deep.locator("> summary").click()
    box = deep.get_by_label("Message to the workstream Deep one")
    box.fill(answering(text="The second is **blue**."))
    box.press("Enter")
    expect(box).to_have_value("", timeout=SOON)
    for _ in ("live", "after a reload"):
        expect(deep.locator(".workstream-message")).to_have_count(1)
        expect(deep.locator(".text strong")).to_have_text("blue", timeout=SOON)
        expect(deep.locator(".workstream-message + .text")).to_contain_text("The second is blue.")
        chat.page.reload()
        deep.locator("> summary").click()
    expect(state).to_contain_text("waiting for a message", timeout=SOON)
    deep.get_by_role("button", name="Pause the workstream Deep one").click()
    expect(state).to_contain_text("paused", timeout=SOON)
    box.fill("Half a sentence")
    resume = deep.get_by_role("button", name="Resume the workstream Deep one")
    resume.focus()
    chat.page.keyboard.press("Enter")
    expect(deep.get_by_role("button", name="Pause the workstream Deep one")).to_be_visible(timeout=SOON)
    expect(box).to_have_value("Half a sentence")
    news.locator("> summary").click()
    news.get_by_role("button", name="Stop the workstream News").click()
    expect(news.locator("> summary .call-state")).to_contain_text("stopped", timeout=SOON)
    chat.wait_finished()


def test_a_workstream_in_the_background_works_on_below_the_answer_and_is_reported_by_itself(
    new_tab: NewTab, team: str, model_server: ModelServer
) -> None:
    chat = new_tab().open(f"/chat/new?agent={team}")
    finding = launch("boats", "Boats", text="They are good. " + answering(text="The boats are good."), hold=2)
    finding[1]["background"] = True  # type: ignore[index]
    chat.ask(tools=[finding], text="I look into it.")
    chat.wait_finished()
    boats = card(chat, "Boats")
    for _ in ("live", "after a reload"):
        expect(chat.answers.first.locator("> .parts > .text").last).to_have_text("I look into it.")
        expect(boats.locator("> summary .call-state.is-done")).to_have_count(0)
        expect(boats.locator("> summary .call-state")).to_contain_text("planning", timeout=SOON)
        boats.locator("> summary").click()
        expect(boats.locator(".text")).to_have_text("They are", timeout=SOON)
        chat.page.reload()
    model_server.go_on()
    expect(boats.locator("> summary .call-state.is-done")).to_have_count(1, timeout=SOON)
    expect(chat.answers.nth(1).locator("> .parts > .text").last).to_have_text("The boats are good.", timeout=SOON)
    chat.page.reload()
    expect(chat.answers).to_have_count(2)
    expect(boats.locator(".workstream-result")).to_contain_text("They are good.")


# A question may come before its card is in the group.
_GROUP_AGAIN = """async (card) => {
    const { groupAround } = await import("/static/js/chat/workstream-groups.js");
    const group = card.closest(".workstream-group");
    group.open = false;
    group.after(card);
    groupAround(card);
}"""


def test_workstreams_of_one_launch_are_a_group_that_is_addressed_together(new_tab: NewTab, team: str) -> None:
    chat = new_tab().open(f"/chat/new?agent={team}")
    names = ("Prices", "News", "Region")
    held = [launch(name.lower(), name, text="It is calm. " + answering(text="All done."), hold=2) for name in names]
    asking = launch("rates", "Rates", tool="ask_user", args=QUESTION, text="In EUR. " + answering(text="All done."))
    chat.ask(tools=[*held, asking], text="They work.")
    group = chat.page.locator(".workstream-group")
    counts = group.locator("> summary .group-counts")
    status = chat.page.locator(".answer .status-text")
    for _ in ("live", "after a reload"):
        expect(group.locator("> summary .workstream-name")).to_have_text("4 workstreams", timeout=SOON)
        expect(counts).to_have_text("3 running, 1 waits for you", timeout=SOON)
        expect(status).to_have_text("0 of 4 workstreams are done. Rates waits for you.", timeout=SOON)
        expect(status.locator("strong")).to_have_text("Rates")
        expect(group.get_by_role("button", name="EUR")).to_be_visible()
        expect(chat.page.locator(".answer > .parts > .workstream")).to_have_count(0)
        chat.page.reload()
    card(chat, "Rates").evaluate(_GROUP_AGAIN)
    expect(group.get_by_role("button", name="EUR")).to_be_visible()
    card(chat, "Prices").locator("> summary").click()
    card(chat, "Prices").get_by_role("button", name="Stop the workstream Prices").click()
    expect(counts).to_have_text("1 stopped, 2 running, 1 waits for you", timeout=SOON)
    expect(status).to_have_text("1 of 4 workstreams has ended. Rates waits for you.")
    group.get_by_label("Message to all of these workstreams that work").fill("Look in May.")
    chat.page.keyboard.press("Enter")
    result = group.locator(".group-result")
    expect(result).to_have_text("Sent to 3 of 3.", timeout=SOON)
    expect(card(chat, "Region").locator(".workstream-message")).to_have_text("Message to the workstream: Look in May.")
    card(chat, "Prices").evaluate("card => card.toggleAttribute('data-open', true)")  # a page that is late
    group.get_by_role("button", name="Pause all").click()
    expect(result).to_contain_text("Paused 3 of 4.", timeout=SOON)
    expect(result).to_contain_text("Prices: The workstream prices has ended.")
    group.get_by_role("button", name="Stop all").click()
    expect(counts).to_have_text("4 stopped", timeout=SOON)
    expect(group.get_by_role("button", name="Stop all")).to_be_hidden()
    chat.wait_finished()
    chat.page.reload()
    expect(counts).to_have_text("4 stopped")


def test_the_panel_shows_the_tree_of_workstreams_and_leads_to_what_they_ask(new_tab: NewTab, team: str) -> None:
    chat = new_tab(viewport={"width": 390, "height": 844}).open(f"/chat/new?agent={team}")
    panel, button = chat.page.locator("#team"), chat.page.get_by_role("button", name="Workstreams of this chat")
    expect(button).to_be_hidden()
    inner = launch("deep", "Deep one", tool="ask_user", args=QUESTION, text="In EUR. " + answering(text="Well."))
    outer = launch("prices", "Prices", tools=[inner], text="Asked. " + answering(text="All done."))
    news = launch("news", "News", text="It is calm. " + answering(text="All done."), hold=2)
    chat.ask(tools=[outer, news], text="They work.")
    expect(chat.page.get_by_role("button", name="EUR")).to_be_visible(timeout=SOON)
    button.focus()
    chat.page.keyboard.press("Enter")
    expect(panel.locator(".team-sum")).to_contain_text("3 workstreams", timeout=SOON)
    below = panel.locator(".team-members .team-members .team-member")
    expect(below.locator("> summary")).to_contain_text("asks a question")
    expect(panel.locator(".team-waits")).to_have_text("waits for Deep one", timeout=SOON)
    assert panel.evaluate("panel => panel.scrollWidth <= panel.clientWidth")
    assert find_violations(chat.page, "panel at 390 px") == []
    chat.page.emulate_media(color_scheme="dark")
    assert find_violations(chat.page, "panel in the dark", runOnly=["color-contrast"]) == []
    member = panel.locator(".team-member", has=chat.page.locator(".team-name", has_text="News"))
    member.locator("summary").focus()
    chat.page.keyboard.press("Enter")
    member.get_by_label("Message to News").fill("Look in May.")
    chat.page.keyboard.press("Enter")
    expect(member.locator(".group-result")).to_have_text("Sent to 1 of 1.", timeout=SOON)
    member.get_by_role("button", name="Pause").click()
    expect(member.get_by_role("button", name="Resume")).to_be_visible(timeout=SOON)
    member.get_by_role("button", name="Stop").click()
    expect(member.locator("> summary")).to_contain_text("stopped", timeout=SOON)
    panel.get_by_role("link", name="1 waits for you").click()
    expect(panel).to_be_hidden()
    expect(chat.page.get_by_role("button", name="EUR")).to_be_in_viewport()
    expect(chat.page.get_by_role("button", name="EUR")).to_be_focused()
    expect(card(chat, "News").locator(".workstream-message")).to_have_count(0)  # it has ended
    chat.page.keyboard.press("Enter")
    chat.wait_finished()
