"""Requests of a run to a person, as forms for the client's user, and the answers of these forms."""

from typing import Any
from uuid import UUID

import mcp_types as types

from audit_app.kernel.errors import AppError
from sessions_app import services
from sessions_app.access import access_approval, access_session
from sessions_app.approvals import decisions
from sessions_app.identity import rate_limits
from sessions_app.identity.principal import Principal
from sessions_app.services import NewMessage, ReceiveOptions
from sessions_app.surfaces.mcp.calls import form
from tools_app import selectors as tool_calls
from tools_app.types.questions import Question, answer_line

_DECISION = "decision"


def forms(asks: list[dict[str, Any]], session_id: UUID) -> dict[str, types.InputRequest]:
    """Return a form for each ask that its reader may answer, by a name that says what it answers. Synchronous."""
    found: dict[str, types.InputRequest] = {}
    for asked in asks:
        if asked["kind"] == "approval" and asked["decisions"]:
            found[f"approval:{asked['approval']}"] = _approval_form(asked)
        elif asked["kind"] == "question" and (question := tool_calls.find_question(session_id)):
            properties, required = _fields(question.questions)
            found[f"question:{question.id}"] = form(asked["text"], properties, required)
    return found


def _approval_form(asked: dict[str, Any]) -> types.InputRequest:
    message = f"{asked['asked_by']} asks to call {asked['tool']} with {asked['arguments']}. {asked['reason']}"
    choice = {"type": "string", "title": "Decision", "enum": asked["decisions"]}
    return form(message, {_DECISION: choice, "note": {"type": "string", "title": "Note for the agent"}}, (_DECISION,))


def _fields(questions: tuple[Question, ...]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the fields of a form and the names of those that are required."""
    properties: dict[str, Any] = {}
    for number, question in enumerate(questions, 1):
        options = [{"const": option.id, "title": option.label} for option in question.options]
        if question.allows_several:
            properties[f"choice_{number}"] = {"type": "array", "title": question.text, "items": {"anyOf": options}}
        elif options:
            properties[f"choice_{number}"] = {"type": "string", "title": question.text, "oneOf": options}
        if question.allows_text:
            properties[f"text_{number}"] = {"type": "string", "title": question.text}
    return properties, tuple(properties) if len(properties) == 1 else ()


def apply(principal: Principal, session_id: UUID, answers: dict[str, types.ElicitResult]) -> bool:
    """Store the answers of forms as the principal's. Return whether any was given and still wanted. Synchronous."""
    applied = False
    for name, answer in answers.items():
        kind, _, key = name.partition(":")
        if answer.action != "accept" or not answer.content:
            continue
        try:
            (_decide if kind == "approval" else _reply)(principal, session_id, key, answer.content)
            applied = True
        except AppError:
            continue  # it was answered elsewhere, has expired, or the answer is not one that it allows
    return applied


def _decide(principal: Principal, session_id: UUID, approval: str, content: dict[str, Any]) -> None:
    decision, note = str(content.get(_DECISION, "")), str(content.get("note") or "")[:500]
    asked = access_approval(principal.user, approval, decision=decision)
    fresh = principal.has_fresh_login
    decisions.decide(asked.id, decision=decision, actor=principal.actor, has_fresh_login=fresh, note=note)


def _reply(principal: Principal, session_id: UUID, request: str, content: dict[str, Any]) -> None:
    question = tool_calls.find_question(session_id, UUID(request))
    if question is None:
        return
    lines = [_line(number, asked, content) for number, asked in enumerate(question.questions, 1)]
    rate_limits.take(rate_limits.chat_limit(), principal.actor)
    session = access_session(principal.user, session_id)
    message = NewMessage.into(session, "\n".join(lines))
    options = ReceiveOptions(answers=question.id)
    services.receive(message, owner=principal.user, session=session, options=options)


def _line(number: int, question: Question, content: dict[str, Any]) -> str:
    chosen, text = content.get(f"choice_{number}"), content.get(f"text_{number}")
    return answer_line(question, chosen if isinstance(chosen, list) else [str(chosen or "")], str(text or ""))
