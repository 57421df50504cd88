"""Events of a session as the events of a visitor's page.

A piece of text names the place where it begins in its step, so that a page which gets a piece again shows it once.
"""

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
from audit_app.kernel.json_text import as_json
from sessions_app.events import MESSAGE_RECEIVED
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.webchat.queries import Details, Prompt, html_of, prompt_key, question_outcome, steps_of
from sessions_app.surfaces.webchat.rendered_steps import RenderedSteps
from tools_app.events import APPROVAL_DECIDED, APPROVAL_REQUESTED, INPUT_REQUESTED, TOOL_COMPLETED, TOOL_FAILED
from tools_app.types.questions import REMOTE_PREFIXES, Question, text_of

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
WILL_ANSWER = "We are checking this and will answer here."
_QUESTIONS = ("ask_user", "ask_form")
_STATES = {RUN_COMPLETED.name: "complete", RUN_CANCELLED.name: "cancelled"}


class PageEvent(NamedTuple):
    """An event of the page. name: of NAMES."""

    name: str
    data: dict[str, Any]

    @property
    def text(self) -> str:
        return as_json(self.data)


def page_event(event: SessionEvent, details: Details, steps: RenderedSteps) -> PageEvent | None:
    """Return the event to send for an event of the session, None for one that the page does not show.

    steps: what the page was sent of the texts.
    """
    match event.type:
        case MESSAGE_RECEIVED.name:
            return _received(event, details)
        case RUN_QUEUED.name:
            return PageEvent("typing", {"messageId": str(event.run_id)})
        case RUN_STARTED.name:
            return PageEvent("message.started", {"messageId": str(event.run_id)})
        case TEXT_DELTA.name:
            piece = TEXT_DELTA.payload(event)
            return _delta(event, piece["offset"], piece["text"], steps)
        case SNAPSHOT.name:
            return _delta(event, 0, SNAPSHOT.payload(event)["text"], steps)
        case MESSAGE_RESET.name:
            return _delta(event, 0, "", steps)
        case APPROVAL_REQUESTED.name | INPUT_REQUESTED.name:
            return _requested(event, details)
        case APPROVAL_DECIDED.name:
            decided = APPROVAL_DECIDED.payload(event)
            return PageEvent("approval.resolved", {"actionId": decided["execution_id"], "outcome": decided["status"]})
        case TOOL_COMPLETED.name | TOOL_FAILED.name:
            return _question_ended(event)
    if event.type not in RUN_ENDS or event.run_id is None:
        return None
    steps.forget(event.run_id)
    return _ended(event, details)


def _received(event: SessionEvent, details: Details) -> PageEvent | None:
    received = MESSAGE_RECEIVED.payload(event)
    message = details.messages.get(received["turn_id"])
    if message is None:
        return None
    data = {"messageId": received["message_id"], "text": message.text, "files": list(message.files)}
    return PageEvent("message.received", data)


def _delta(event: SessionEvent, offset: int, text: str, steps: RenderedSteps) -> PageEvent:
    data = {"messageId": str(event.run_id), "step": event.step, "seq": offset, "text": text}
    if event.run_id is not None and event.step is not None:
        data |= steps.render(event.run_id, event.step, offset, text)
    return PageEvent("message.delta", data)


def _requested(event: SessionEvent, details: Details) -> PageEvent | None:
    prompt = details.prompts.get(prompt_key(event))
    if prompt is None:
        return None
    choices = [{"id": action, "label": label, "style": style} for label, action, style in prompt.buttons]
    place = {"messageId": str(event.run_id), "step": event.step}
    data = {"actionId": event.payload["execution_id"], "kind": prompt.kind, "title": html_of(_title(event, prompt))}
    return PageEvent("approval.requested", {**place, **data, "choices": choices})


def _title(event: SessionEvent, prompt: Prompt) -> str:
    """Return what a visitor reads: no list of what the buttons say, and nothing of a call that others decide about."""
    if prompt.kind == "approval":
        return prompt.markdown if prompt.buttons else WILL_ANSWER
    questions = tuple(map(Question.from_json, INPUT_REQUESTED.payload(event).get("questions") or ()))
    has_about = any(option.description for question in questions for option in question.options)
    return (
        prompt.markdown if not (prompt.buttons and questions) or has_about else text_of(questions, with_options=False)
    )


def _question_ended(event: SessionEvent) -> PageEvent | None:
    if event.payload["tool"] not in _QUESTIONS and not event.payload["tool"].startswith(REMOTE_PREFIXES):
        return None
    return PageEvent("approval.resolved", {"actionId": event.payload["execution_id"], **question_outcome(event)})


def _ended(event: SessionEvent, details: Details) -> PageEvent:
    markdown = details.answers.get(event.run_id, "") if event.run_id else ""
    parts = steps_of(markdown, details.texts.get(event.run_id, ()) if event.run_id else ())
    data = {
        "messageId": str(event.run_id),
        "html": html_of(markdown),
        "markdown": markdown,
        "steps": [{"step": step, "html": html_of(text)} for step, text in parts],
    }
    if event.type in _STATES:
        return PageEvent("message.completed", {**data, "state": _STATES[event.type]})
    return PageEvent("error", {**data, "code": RUN_COMPLETED.payload(event)["code"]})
