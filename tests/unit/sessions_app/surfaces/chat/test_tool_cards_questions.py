"""Questions of an agent to its user on the chat page."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe

from sessions_app.live_view.cursor import SessionEvent
from sessions_app.models import Turn
from sessions_app.surfaces.base.live_text import LiveTexts
from sessions_app.surfaces.chat.fragments import frame_of
from sessions_app.surfaces.chat.page_updates import ShowQuestion, ShowStatus
from sessions_app.surfaces.chat.projection import Projection
from sessions_app.surfaces.chat.tool_cards import CallDetails, InputRequest, ended_state, requested_card, tool_card_of
from sessions_app.surfaces.chat.turn_views import ASKING, THINKING, stored_turn_view, using
from tools_app.types import ExecutionStatus, ExecutionView
from tools_app.types.questions import Question, plain_options

RUN, EXECUTION = UUID(int=1), UUID(int=2)
HOSTILE = '<img src=x onerror="alert(1)">'
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def execution(arguments: dict[str, Any], output: str | None = None) -> ExecutionView:
    status = ExecutionStatus.COMPLETED if output else ExecutionStatus.PENDING
    return ExecutionView(
        id=EXECUTION,
        run_id=RUN,
        session_id=UUID(int=3),
        agent_id="default",
        step=0,
        call_index=0,
        call_id="c",
        tool="ask_user",
        arguments=arguments,
        status=status,
        output=output,
        error=None,
        timeout_seconds=60,
        created_at=NOW,
        started_at=None,
        completed_at=None,
    )


def html_of(call: Any) -> str:
    return render_to_string("chat/_call.html", {"call": call})


def test_an_open_question_is_shown_with_its_options_to_press() -> None:
    call = tool_card_of(execution({"question": "Which?", "options": ["Red", "Blue"]}))
    assert call.input_request == InputRequest(EXECUTION, (Question("Which?", plain_options(("Red", "Blue"))),))
    html = html_of(call)
    assert html.count('class="answer-choice"') == 2 and " open>" in html.split("\n")[0]


def test_live_and_reloaded_it_is_the_same_card() -> None:
    arguments = {"question": "Which?", "options": ["Red"]}
    payload = {"execution_id": str(EXECUTION), "tool": "ask_user", "arguments": arguments}
    assert html_of(requested_card(0, payload)) == html_of(tool_card_of(execution(arguments)))


def test_an_answered_question_shows_the_answer_and_nothing_to_press() -> None:
    html = html_of(tool_card_of(execution({"question": "Which?", "options": ["Red"]}, json.dumps({"answer": "Teal"}))))
    assert "Teal" in html and "answer-choice" not in html


def test_question_and_answer_are_shown_once_and_the_rest_is_folded() -> None:
    output = json.dumps({"answer": "Teal", "is_option": False})
    html = html_of(tool_card_of(execution({"question": "Which?", "options": ["Red"]}, output)))
    body = html.split('<div class="call-body">')[1]
    shown = re.sub(r'<details class="fold">.*?</details>', "", body, flags=re.DOTALL)
    assert (shown.count("Which?"), shown.count("Teal"), shown.count("is_option")) == (1, 1, 0)
    assert "is_option" in html and 'class="call is-question"' in html


def test_the_answer_is_shown_as_soon_as_the_call_has_ended() -> None:
    output = json.dumps({"answer": "Teal", "is_option": False})
    payload: Any = {"execution_id": str(EXECUTION), "tool": "ask_user", "status": "Completed"}
    _, result = ended_state({**payload, "output": output, "duration_ms": 5})
    assert result.answer == "Teal"


def test_questions_and_answers_are_escaped() -> None:
    html = html_of(tool_card_of(execution({"question": HOSTILE, "options": [HOSTILE]})))
    assert "<img" not in html
    html = html_of(tool_card_of(execution({"question": HOSTILE}, json.dumps({"answer": HOSTILE}))))
    assert "<img" not in html


@pytest.mark.parametrize("arguments", [{}, {"question": 7}, {"question": "Q", "options": "no list"}, {"options": [1]}])
def test_invalid_arguments_are_shown(arguments: dict[str, Any]) -> None:
    assert html_of(tool_card_of(execution(arguments)))


def test_the_status_names_the_user_as_the_one_waited_for() -> None:
    seen = SessionEvent("input.requested", UUID(int=3), RUN, 0, {"question": "Which?"}, "5.1-1", 5, 1)
    (act,) = Projection(LiveTexts()).updates([seen])
    assert isinstance(act, ShowStatus) and act.status.text == ASKING
    assert frame_of(act)["say"] == "Which?"
    asked = replace(seen, payload={"question": "Which?", "options": ["Red", "Dark blue"]})
    assert frame_of(*Projection(LiveTexts()).updates([asked]))["say"] == "Which?\nOptions: Red, Dark blue."
    shown = [using(tools).text for tools in (["ask_user"], ["ask_user", "echo"], [])]
    assert shown == [ASKING, "Using echo…", THINKING]


def test_an_answer_is_not_repeated_in_the_user_turn() -> None:
    asked = Turn(run_id=RUN, ordinal=0, part=0, role="user", content="paint it")
    answered = Turn(run_id=RUN, ordinal=0, part=1, role="user", content="blue", tool_call_ids=[str(EXECUTION)])
    steered = Turn(run_id=RUN, ordinal=0, part=2, role="user", content="and quickly")
    assert (
        stored_turn_view([asked, answered, steered], {}, lambda turn: mark_safe(turn.content)).question
        == "paint it\n\nand quickly"
    )


def test_a_form_has_fields_and_one_button() -> None:
    several = {
        "question": "Which?",
        "options": ["a", {"id": "b", "label": "B", "description": "The 2nd"}],
        "multiple": True,
    }
    html = html_of(tool_card_of(execution({"questions": [several, {"question": "Why?", "variant": "warning"}]})))
    assert html.count('type="checkbox"') == 2 and 'name="text-1"' in html and "The 2nd" in html
    assert html.count("Send answer") == 1 and "answer-choice" not in html and "is-warning" in html


def test_the_answers_of_a_form_stand_below_their_questions() -> None:
    output = json.dumps({"answers": [{"question": "Which?", "answer": "a, B"}, {"question": HOSTILE, "answer": ""}]})
    call = tool_card_of(execution({"questions": [{"question": "Which?"}, {"question": HOSTILE}]}, output))
    assert call.result and call.result.answers == (("Which?", "a, B"), (HOSTILE, "–"))
    html = html_of(call)
    shown = html[html.index('class="answers"') :]
    assert shown.index("Which?") < shown.index("a, B") < shown.index("–") and "<img" not in html
    raw = tool_card_of(execution({"questions": [{"question": "Which?"}]}, json.dumps({"text": "no"})))
    assert raw.result and raw.result.answer == "no"


def asked_event(*questions: Question, tool: str = "mcp__shop__greet") -> SessionEvent:
    payload = {"execution_id": str(EXECUTION), "tool": tool, "questions": [each.as_json() for each in questions]}
    return SessionEvent("input.requested", UUID(int=3), RUN, 0, payload, "5.1-1", 5, 1)


def test_what_a_call_asks_while_it_runs_is_shown_on_its_card_and_can_be_declined() -> None:
    updates = Projection(LiveTexts()).updates([asked_event(Question(HOSTILE))])
    shown = next(update for update in updates if isinstance(update, ShowQuestion))
    frame = frame_of(shown)
    assert (frame["do"], frame["call"]) == ("question", str(EXECUTION))
    assert 'name="decline"' in frame["html"] and HOSTILE not in frame["html"]
    own = Projection(LiveTexts()).updates([asked_event(Question("Which?"), tool="ask_user")])
    assert not any(isinstance(update, ShowQuestion) for update in own)


def test_a_reloaded_card_shows_what_its_call_asks_until_it_is_answered() -> None:
    call = replace(execution({"to": "me"}), tool="mcp__shop__greet")
    question = Question("Sure?", plain_options(("Accept", "Decline")))
    asked = InputRequest(EXECUTION, (question,), is_of_call=True)
    html = html_of(CallDetails(questions={EXECUTION: asked}).card_of(call))
    assert html.count('class="answer-choice"') == 2 and 'name="decline"' not in html and " open>" in html.split("\n")[0]
    answered = replace(asked, is_open=False, answer="Accept")
    assert "answer-choice" not in html_of(CallDetails(questions={EXECUTION: answered}).card_of(call))
    ended = replace(call, status=ExecutionStatus.COMPLETED, output='"ok"')
    html = html_of(CallDetails(questions={EXECUTION: answered}).card_of(ended))
    assert 'input-request-answer" dir="auto"><span class="sr-only">Your answer: </span>Accept' in html


@pytest.mark.parametrize(("status", "error"), [(ExecutionStatus.CANCELLED, ""), (ExecutionStatus.FAILED, "Stopped.")])
def test_a_call_that_was_cancelled_shows_no_error(status: ExecutionStatus, error: str) -> None:
    card = tool_card_of(replace(execution({}), status=status, error="Stopped."))
    assert card.result is not None and card.result.error == error
    ended = {"execution_id": str(EXECUTION), "status": str(status), "error": "Stopped.", "duration_ms": None}
    assert ended_state(ended)[1].error == error  # type: ignore[arg-type]
