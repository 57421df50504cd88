"""Frames: updates of the page as JSON, with their HTML. Renders templates; reads no database."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.template.loader import render_to_string

from sessions_app.models import Feedback, Session
from sessions_app.surfaces.chat.approval_cards import ApprovalCard
from sessions_app.surfaces.chat.page_updates import (
    ChangeCall,
    DiscardText,
    ShowAgent,
    ShowBatch,
    ShowCall,
    ShowPlan,
    ShowProgress,
    ShowQuestion,
    ShowReasoning,
    ShowStatus,
    ShowText,
    WorkUpdate,
)
from sessions_app.surfaces.chat.queries import TurnPage
from sessions_app.surfaces.chat.session_files import FileEntry
from sessions_app.surfaces.chat.tool_cards import waiting_state
from sessions_app.surfaces.chat.turn_views import TurnView
from sessions_app.surfaces.chat.workstream_cards import WorkstreamCard
from tools_app.run_progress import Batch, Plan, Progress

Frame = dict[str, Any]
CallUpdate = ShowCall | ChangeCall | ShowQuestion
ContainedUpdate = ShowText | ShowReasoning | DiscardText | CallUpdate | WorkUpdate | ShowStatus | ShowAgent


def frame_of(update: ContainedUpdate) -> Frame:
    """Return the frame of an update that contains all that it shows."""
    match update:
        case ShowText():
            blocks = [[block.start, block.end, block.html] for block in update.blocks]
            place = {"run": str(update.run_id), "step": update.step, "offset": update.offset}
            draft = {"draft": [update.draft.start, update.draft.end, update.draft.html]} if update.draft else {}
            return {"do": "text", **place, "text": update.text, "blocks": blocks, **draft}
        case DiscardText():
            place = {"run": str(update.run_id), "step": update.step}
            return {"do": "forget", **place, "reasoning": update.with_reasoning}
        case ShowReasoning():
            place = {"run": str(update.run_id), "step": update.step, "offset": update.offset}
            return {"do": "reasoning", **place, "text": update.text}
        case ShowCall():
            html = render_to_string("chat/_call.html", {"call": update.call})
            ids = {"run": str(update.run_id), "step": update.call.step, "call": str(update.call.id)}
            return {"do": "call", **ids, "html": html}
        case ChangeCall():
            state = render_to_string("chat/_call_state.html", {"state": update.state})
            result = render_to_string("chat/_call_result.html", {"result": update.result}) if update.result else ""
            frame = {"do": "change", "call": str(update.state.id), "state": state, "result": result}
            if update.result and update.result.path:
                frame["file"] = render_to_string("chat/_written_file.html", {"file": update.result})
            return frame
        case ShowQuestion():
            html = render_to_string("chat/_input_request.html", {"input": update.asked})
            return {"do": "question", "call": str(update.asked.key), "html": html}
        case ShowPlan():
            return _work_frame(update.run_id, "plan", update.run_id, update.plan)
        case ShowProgress():
            return _work_frame(update.run_id, "progress", update.run_id, update.progress)
        case ShowBatch():
            return _work_frame(update.run_id, "batch", update.call_id, update.batch)
        case ShowStatus():
            html = render_to_string("chat/_status.html", {"key": update.run_id, "status": update.status})
            announcement = (update.announcement or update.status.text) if update.is_announced else ""
            return {"do": "status", "run": str(update.run_id), "html": html, "say": announcement}
        case ShowAgent():
            return {"do": "agent", "agent": update.agent_id}


def _work_frame(run_id: UUID, name: str, key: UUID, shown: Plan | Progress | Batch) -> Frame:
    html = render_to_string(f"chat/_{name}.html", {"key": key, name: shown})
    return {"do": "work", "run": str(run_id), "id": f"{name}-{key}", "html": html}


def approval_frame(run_id: UUID, card: ApprovalCard) -> Frame:
    """Return the frame that shows a request for approval below its call, and the state of the call."""
    state = render_to_string("chat/_call_state.html", {"state": waiting_state(card)})
    if card.is_pending and card.may_decide:
        announcement = (
            f"Allow {card.approval.tool}? {card.approval.risk.capitalize()} risk. On the request, press A or D."
        )
    else:
        announcement = f"{card.approval.tool}: {card.waiting_label.lower() if card.is_pending else card.outcome}."
    ids = {"run": str(run_id), "call": str(card.approval.execution_id)}
    html = {"html": approval_html(card), "state": state}
    return {"do": "approval", **ids, **html, "pending": card.is_pending, "say": announcement}


def workstream_frame(card: WorkstreamCard, *, is_announced: bool) -> Frame:
    """Return the frame that shows the state of a workstream, its card if the page lacks it, and its end."""
    place = {"run": str(card.view.parent_id), "id": str(card.id), "call": str(card.call_id or ""), "step": card.step}
    html = {
        "html": render_to_string("chat/_workstream.html", {"card": card}),
        "head": render_to_string("chat/_workstream_head.html", {"card": card}),
        "foot": render_to_string("chat/_workstream_foot.html", {"card": card}) if card.is_open else "",
        "body": "" if card.is_open else render_to_string("chat/_workstream_body.html", {"card": card}),
    }
    return {"do": "workstream", **place, **html, "say": f"{card.name}: {card.state.label}." if is_announced else ""}


def approval_html(card: ApprovalCard) -> str:
    return render_to_string("chat/_approval.html", {"card": card, "call_id": card.approval.execution_id})


def turn_frame(turn_view: TurnView, message_id: str = "") -> Frame:
    """Return the frame that shows a whole turn, unless the page shows it."""
    html = render_to_string("chat/_turn.html", {"turn": turn_view})
    return {"do": "turn", "run": turn_view.key, "place": turn_view.ordinal, "message": message_id, "html": html}


def answer_frame(turn_view: TurnView) -> Frame:
    """Return the frame that replaces the streamed text with the answer of an ended run."""
    html = render_to_string("chat/_answer.html", {"turn": turn_view})
    return {"do": "answer", "run": turn_view.key, "html": html, "say": _announcement(turn_view)}


def branch_frame(session: Session, page: TurnPage, place: int) -> Frame:
    """Return the frame that shows the newest turns of the active branch. place: the lowest ordinal that differs."""
    html = render_to_string("chat/_turns.html", {"session": session, "page": page})
    shown = next((view.versions for view in page.turn_views if view.versions and view.versions.place == place), None)
    announcement = f"Version {shown.number} of {shown.count}" if shown else ""
    return {"do": "branch", "place": place, "html": html, "say": announcement}


def older_frame(session: Session, page: TurnPage) -> Frame:
    """Return the frame that shows turns before those that are shown."""
    return {"do": "older", "html": render_to_string("chat/_turns.html", {"session": session, "page": page})}


def rating_html(run_id: UUID, rating: Feedback | None, *, asks: bool) -> str:
    """Return the buttons that rate an answer. asks: with the form for a comment."""
    return render_to_string("chat/_feedback.html", {"key": run_id, "rating": rating, "asks": asks})


def rating_frame(run_id: UUID, rating: Feedback | None, *, asks: bool) -> Frame:
    """Return the frame that shows the viewer's rating of an answer."""
    return {"do": "rating", "run": str(run_id), "html": rating_html(run_id, rating, asks=asks)}


def files_frame(files: Sequence[FileEntry]) -> Frame:
    """Return the frame that lists all files of the session."""
    return {"do": "files", "html": render_to_string("chat/_files.html", {"files": files})}


def _announcement(turn_view: TurnView) -> str:
    """Return the text for screen readers instead of the answer, empty if they read its beginning."""
    if turn_view.can_continue:
        return turn_view.problem
    if turn_view.problem:
        return f"The answer failed: {turn_view.problem}"
    if turn_view.is_withdrawn:
        return "Message removed."
    if turn_view.is_stopped:
        return "Stopped."
    return ""
