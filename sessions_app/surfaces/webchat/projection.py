"""Events of a session as the events of a visitor's page.

A piece of text names the place where it begins in its step, so that a page which gets a piece again shows it once.
"""

import json
from typing import Any, NamedTuple

from agents_app.events import (
    MESSAGE_RESET,
    RUN_CANCELLED,
    RUN_COMPLETED,
    RUN_ENDS,
    RUN_QUEUED,
    RUN_STARTED,
    SNAPSHOT,
    TEXT_DELTA,
)
from sessions_app.events import MESSAGE_RECEIVED
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.webchat.queries import Details, html_of, prompt_key
from tools_app.events import APPROVAL_DECIDED, APPROVAL_REQUESTED, INPUT_REQUESTED, TOOL_COMPLETED, TOOL_FAILED
from tools_app.types.questions import REMOTE_PREFIXES

NAMES = (
    "message.received",
    "typing",
    "message.started",
    "message.delta",
    "message.completed",
    "approval.requested",
    "approval.resolved",
    "error",
)
_QUESTIONS = ("ask_user", "ask_form")
_STATES = {RUN_COMPLETED.name: "complete", RUN_CANCELLED.name: "cancelled"}


class PageEvent(NamedTuple):
    """An event of the page. name: of NAMES."""

    name: str
    data: dict[str, Any]

    @property
    def text(self) -> str:
        return json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))


def page_event(event: SessionEvent, details: Details) -> PageEvent | None:
    """Return the event to send for an event of the session, None for one that the page does not show."""
    match event.type:
        case MESSAGE_RECEIVED.name:
            return _received(event, details)
        case RUN_QUEUED.name:
            return PageEvent("typing", {"messageId": str(event.run_id)})
        case RUN_STARTED.name:
            return PageEvent("message.started", {"messageId": str(event.run_id)})
        case TEXT_DELTA.name:
            piece = TEXT_DELTA.payload(event)
            return _delta(event, piece["offset"], piece["text"])
        case SNAPSHOT.name:
            return _delta(event, 0, SNAPSHOT.payload(event)["text"])
        case MESSAGE_RESET.name:
            return _delta(event, 0, "")
        case APPROVAL_REQUESTED.name | INPUT_REQUESTED.name:
            return _requested(event, details)
        case APPROVAL_DECIDED.name:
            decided = APPROVAL_DECIDED.payload(event)
            return PageEvent("approval.resolved", {"actionId": decided["execution_id"], "outcome": decided["status"]})
        case TOOL_COMPLETED.name | TOOL_FAILED.name:
            return _question_ended(event)
    return _ended(event, details) if event.type in RUN_ENDS else None


def _received(event: SessionEvent, details: Details) -> PageEvent | None:
    received = MESSAGE_RECEIVED.payload(event)
    message = details.messages.get(received["turn_id"])
    if message is None:
        return None
    data = {"messageId": received["message_id"], "text": message.text, "files": list(message.files)}
    return PageEvent("message.received", data)


def _delta(event: SessionEvent, offset: int, text: str) -> PageEvent:
    data = {"messageId": str(event.run_id), "step": event.step, "seq": offset, "text": text}
    return PageEvent("message.delta", data)


def _requested(event: SessionEvent, details: Details) -> PageEvent | None:
    prompt = details.prompts.get(prompt_key(event))
    if prompt is None:
        return None
    choices = [{"id": action, "label": label, "style": style} for label, action, style in prompt.buttons]
    data = {"actionId": event.payload["execution_id"], "kind": prompt.kind, "title": html_of(prompt.markdown)}
    return PageEvent("approval.requested", {**data, "choices": choices})


def _question_ended(event: SessionEvent) -> PageEvent | None:
    if event.payload["tool"] not in _QUESTIONS and not event.payload["tool"].startswith(REMOTE_PREFIXES):
        return None
    outcome = "answered" if event.type == TOOL_COMPLETED.name else "ended"
    return PageEvent("approval.resolved", {"actionId": event.payload["execution_id"], "outcome": outcome})


def _ended(event: SessionEvent, details: Details) -> PageEvent:
    markdown = details.answers.get(event.run_id, "") if event.run_id else ""
    data = {"messageId": str(event.run_id), "html": html_of(markdown), "markdown": markdown}
    if event.type in _STATES:
        return PageEvent("message.completed", {**data, "state": _STATES[event.type]})
    return PageEvent("error", {**data, "code": RUN_COMPLETED.payload(event)["code"]})
