"""Gives acts their HTML and the shape in which they go to the browser. Renders templates; reads no database."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.template.loader import render_to_string

from sessions_app.surfaces.chat.approval_cards import ApprovalCard
from sessions_app.surfaces.chat.projection import ChangeCall, ForgetText, ShowAgent, ShowCall, ShowStatus, ShowText
from sessions_app.surfaces.chat.session_files import FileEntry
from sessions_app.surfaces.chat.tool_cards import waiting_state
from sessions_app.surfaces.chat.turn_views import TurnView

_SPOKEN = 300

Frame = dict[str, Any]


def frame_of(act: ShowText | ForgetText | ShowCall | ChangeCall | ShowStatus | ShowAgent) -> Frame:
    """The JSON object for an act that needs nothing but what it carries."""
    match act:
        case ShowText():
            blocks = [[block.start, block.end, block.html] for block in act.blocks]
            run = str(act.run_id)
            return {
                "do": "text",
                "run": run,
                "step": act.step,
                "offset": act.offset,
                "text": act.text,
                "blocks": blocks,
            }
        case ForgetText():
            return {"do": "forget", "run": str(act.run_id), "step": act.step}
        case ShowCall():
            html = render_to_string("chat/_call.html", {"call": act.call})
            return {"do": "call", "run": str(act.run_id), "step": act.call.step, "call": str(act.call.id), "html": html}
        case ChangeCall():
            state = render_to_string("chat/_call_state.html", {"state": act.state})
            result = render_to_string("chat/_call_result.html", {"result": act.result}) if act.result else ""
            return {"do": "change", "call": str(act.state.id), "state": state, "result": result}
        case ShowStatus():
            html = render_to_string("chat/_status.html", {"key": act.run_id, "status": act.status})
            say = act.status.words if act.is_news else ""
            return {"do": "status", "run": str(act.run_id), "html": html, "say": say}
        case ShowAgent():
            return {"do": "agent", "agent": act.agent_id}


def approval_frame(run_id: UUID, card: ApprovalCard) -> Frame:
    """A request for approval below its call, and the call's state, unless that has ended."""
    state = render_to_string("chat/_call_state.html", {"state": waiting_state(card)})
    say = f"{card.tool}: {card.waits.lower()}." if card.is_pending else f"{card.tool}: {card.outcome}."
    return {
        "do": "approval",
        "run": str(run_id),
        "call": str(card.call_id),
        "html": approval_html(card),
        "state": state,
        "pending": card.is_pending,
        "say": say,
    }


def approval_html(card: ApprovalCard) -> str:
    return render_to_string("chat/_approval.html", {"card": card, "call_id": card.call_id})


def turn_frame(turn_view: TurnView, message_id: str = "") -> Frame:
    """The whole exchange, to be put in its place unless it is there."""
    html = render_to_string("chat/_turn.html", {"turn": turn_view})
    return {"do": "turn", "run": turn_view.key, "place": turn_view.ordinal, "message": message_id, "html": html}


def answer_frame(turn_view: TurnView) -> Frame:
    """The answer of a run that is over, in place of what was streamed."""
    html = render_to_string("chat/_answer.html", {"turn": turn_view})
    return {"do": "answer", "run": turn_view.key, "html": html, "say": _spoken(turn_view)}


def files_frame(files: Sequence[FileEntry]) -> Frame:
    """All files of the session."""
    return {"do": "files", "html": render_to_string("chat/_files.html", {"files": files})}


def _spoken(turn_view: TurnView) -> str:
    """What is told to those who listen: the answer, or its beginning and where to find the rest."""
    if turn_view.problem:
        return f"The answer failed: {turn_view.problem}"
    if turn_view.is_stopped:
        return "Stopped."
    text = " ".join(turn_view.source.split())
    return text if len(text) <= _SPOKEN else f"{text[:_SPOKEN].rsplit(' ', 1)[0]}… The full answer is above."
