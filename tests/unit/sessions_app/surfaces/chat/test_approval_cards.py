"""Requests for approval on the chat page."""

from dataclasses import replace

from django.template.loader import render_to_string

from sessions_app.surfaces.chat.approval_cards import card_of
from sessions_app.surfaces.chat.fragments import approval_frame, approval_html
from sessions_app.surfaces.chat.tool_cards import waiting_state
from tests.unit.sessions_app.approvals.test_prompt_text import APPROVAL
from tools_app.types import ApprovalStatus, Change, Decision


def html(
    allowed_decisions: tuple[Decision, ...] = tuple(Decision),
    change: Change | None = None,
    name: str = "Zoë",
    **fields: object,
) -> str:
    return approval_html(card_of(replace(APPROVAL, **fields), change, allowed_decisions=allowed_decisions, name=name))


def test_a_viewer_who_may_decide_gets_a_button_for_each_choice() -> None:
    page = html()
    assert [value for value in Decision if f'value="{value}"' in page] == list(Decision)
    assert f"/chat/approvals/{APPROVAL.id}/decide" in page and "launch(target=moon)" in page
    narrow = html(choices=(Decision.ALLOW_ONCE, Decision.DENY))
    assert "allow_always" not in narrow and "allow_run" not in narrow


def test_only_allowed_decisions_are_offered() -> None:
    page = html(allowed_decisions=(Decision.ALLOW_ONCE, Decision.ALLOW_RUN, Decision.DENY))
    assert "allow_always" not in page and "launch(target=moon)" not in page and "Allow for this run" in page


def test_others_see_that_an_operator_is_waited_for() -> None:
    page = html(allowed_decisions=())
    assert "waits for an operator" in page and "<form" not in page and "moon" in page


def test_a_note_never_allows() -> None:
    """Enter in the field presses the first button of its form, which must be Deny."""
    note = html().partition('class="deny-note"')[2]
    assert note.index('name="note"') < note.index('value="deny"') and 'value="allow' not in note


def test_arguments_are_masked_whole_and_without_tricks() -> None:
    page = html(arguments={"password": "hunter2", "text": "x" * 9_000 + "\u202eEND", "html": "<script>"})
    assert "hunter2" not in page and "<script>" not in page
    assert "x" * 900 in page and "\\u202eEND" in page  # not cut where an event would be


def test_what_the_run_has_read_is_shown_whole() -> None:
    page = html(origins=("page:a.test", "mcp:wiki", "file:<b>\u202e"))
    assert "Content from outside in this chat: a.test (page), wiki (MCP server), &lt;b&gt;\\u202e (file)." in page
    assert "has read" not in html()


def test_a_change_is_shown_as_a_diff_below_the_arguments() -> None:
    page = html(change=Change("a\n<b>", "a\nc", "x.txt"))
    assert "<del>&lt;b&gt;</del><ins>c</ins>" in page and "x.txt" in page
    assert page.index("moon") < page.index("<del>") and "<details" not in page.partition("<del>")[0]


def test_the_places_that_data_goes_to_are_shown() -> None:
    assert "Goes to: <strong>evil.test</strong>" in html(places=("evil.test",))


def test_a_decided_request_is_one_line_without_buttons() -> None:
    page = html(status=ApprovalStatus.DENIED, decision="deny", note="no <b>")
    assert "Denied by Zoë" in page and "no &lt;b&gt;" in page
    assert "<form" not in page and "data-pending" not in page


def test_the_calls_state_follows_the_request() -> None:
    pending = card_of(APPROVAL, None, allowed_decisions=tuple(Decision), name="")
    refused = card_of(
        replace(APPROVAL, status=ApprovalStatus.EXPIRED), None, allowed_decisions=tuple(Decision), name="system"
    )
    assert [waiting_state(card).label for card in (pending, refused)] == ["needs approval", "denied"]


_ASKED = "Allow launch? High risk. On the request, press A or D."


def test_the_frame_has_an_announcement_for_screen_readers() -> None:
    frame = approval_frame(APPROVAL.run_id, card_of(APPROVAL, None, allowed_decisions=tuple(Decision), name=""))
    assert (frame["do"], frame["pending"], frame["say"]) == ("approval", True, _ASKED)
    mine = approval_frame(APPROVAL.run_id, card_of(APPROVAL, None, allowed_decisions=(), name=""))
    assert mine["say"] == "launch: waiting for an operator."
    assert frame["call"] == str(APPROVAL.execution_id) and "needs approval" in frame["state"]


def test_a_call_nobody_has_to_approve_keeps_a_place_for_it() -> None:
    assert (
        render_to_string("chat/_approval.html", {"card": None, "call_id": "7"}).strip() == '<div id="approval-7"></div>'
    )
