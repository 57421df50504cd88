"""What the hub's clients are told of each thing that happens in a session. Pure: facts in, calls of handlers out.

`AgentTyping`, `ReceiveToken` and `ReceiveMessage` are as the source has them, each with one more argument at the end
that names the session, the message and where to resume; the other events are ours.
"""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from agents_app.events import RUN_COMPLETED, RUN_ENDS, RUN_QUEUED, RUN_STARTED
from sessions_app.events import STEP_CLOSING
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.append_only_text import BREAK, TEXT, AppendedText
from tools_app.events import (
    APPROVAL_DECIDED,
    APPROVAL_REQUESTED,
    INPUT_REQUESTED,
    TOOL_COMPLETED,
    TOOL_FAILED,
    TOOL_PROGRESS,
    TOOL_REQUESTED,
)
from tools_app.types import Decision

Call = tuple[str, list[Any]]

_FIELDS = {
    "approval_id": "approvalId",
    "arguments": "arguments",
    "call_index": "callIndex",
    "choices": "choices",
    "decided_by": "decidedBy",
    "decision": "decision",
    "duration_ms": "durationMs",
    "error": "error",
    "execution_id": "executionId",
    "expires_at": "expiresAt",
    "fraction": "fraction",
    "note": "note",
    "options": "options",
    "output": "output",
    "pattern": "pattern",
    "question": "question",
    "reason": "reason",
    "request_id": "requestId",
    "risk": "risk",
    "status": "status",
    "text": "text",
    "tool": "tool",
}
_TARGETS = {
    TOOL_REQUESTED.name: "ToolStarted",
    TOOL_PROGRESS.name: "ToolProgress",
    TOOL_COMPLETED.name: "ToolCompleted",
    TOOL_FAILED.name: "ToolCompleted",
    APPROVAL_REQUESTED.name: "ApprovalRequested",
    APPROVAL_DECIDED.name: "ApprovalDecided",
    INPUT_REQUESTED.name: "InputRequested",
}


class HubProjection:
    """One session as one connection sees it. agent_id: who answers there, until a run says otherwise; may_say: all that
    the caller may say to requests for approval."""

    def __init__(self, session_key: str, agent_id: str, allowed_decisions: Collection[Decision] = ()) -> None:
        self._session_key = session_key
        self._allowed_decisions = allowed_decisions
        self._agents: dict[UUID, str] = {}
        self._agent_id = agent_id
        self._texts: dict[tuple[UUID, int], AppendedText] = {}
        self._begun: set[UUID] = set()

    def recall(self, kept: Sequence[SessionEvent], shown: Sequence[SessionEvent] | None) -> None:
        """Take up a run where the client left it. kept: its events until there; shown: what the client has of the open
        step's text. Where nobody knows that, the text is told whole, as one that differs."""
        for fact in (*kept, *(shown or ())):
            self.calls(fact)
            if fact.run_id and (shown is None or fact.payload.get("text_length")):
                self._begun.add(fact.run_id)

    def calls(self, fact: SessionEvent) -> list[Call]:
        """The calls that a fact leads to; for the end of a run, those that come before its whole message."""
        if fact.run_id is None:
            return []
        if fact.type in (RUN_QUEUED.name, RUN_STARTED.name):
            self._agents[fact.run_id] = fact.payload["agent_id"]
        agent_id, where = self._agents.get(fact.run_id, self._agent_id), self._where(fact)
        if fact.type == RUN_STARTED.name:
            return [("AgentTyping", [agent_id, True, where])]
        if fact.type in RUN_ENDS:
            return [("ReceiveToken", [agent_id, None, True, where])]
        piece = self._piece(fact, fact.run_id, fact.step) if fact.step is not None else ""
        calls: list[Call] = [("ReceiveToken", [agent_id, piece, False, where])] if piece else []
        if target := _TARGETS.get(fact.type):
            told = {name: fact.payload[key] for key, name in _FIELDS.items() if key in fact.payload}
            if "choices" in told:
                told["choices"] = [choice for choice in told["choices"] if choice in self._allowed_decisions]
            calls.append((target, [agent_id, {**told, **where}]))
        return calls

    def ending(self, run_id: UUID, fact: SessionEvent, message: dict[str, Any]) -> list[Call]:
        """What follows the last token: the stored message or why there is none. Forgets the run.

        message: as `message_of` makes it.
        """
        agent_id, where = self._agents.pop(run_id, self._agent_id), self._where(fact)
        self._texts = {key: text for key, text in self._texts.items() if key[0] != run_id}
        self._begun.discard(run_id)
        calls: list[Call] = []
        if message["text"]:
            calls.append(("ReceiveMessage", [{**message, "agentId": agent_id, "eventId": fact.cursor}]))
        if fact.type != RUN_COMPLETED.name:
            code, why = fact.payload["code"], fact.payload["message"]
            calls.append(("RunFailed", [agent_id, {"code": code, "message": why, **where}]))
        return [*calls, ("AgentTyping", [agent_id, False, where])]

    def _piece(self, fact: SessionEvent, run_id: UUID, step: int) -> str:
        """The text that a fact adds, often none."""
        if fact.type not in (*TEXT, *STEP_CLOSING):
            return ""
        text = self._texts.setdefault((run_id, step), AppendedText())
        is_first = not text.length
        piece = text.see(fact)
        if piece and is_first and run_id in self._begun:
            piece = BREAK + piece
        if piece:
            self._begun.add(run_id)
        return piece

    def _where(self, fact: SessionEvent) -> dict[str, Any]:
        return {"sessionId": self._session_key, "messageId": str(fact.run_id), "eventId": fact.cursor}


def message_of(
    session_key: str,
    channel: str,
    recipient_id: str,
    run_id: UUID,
    text: str,
    timestamp: str,
    state: str,
    citations: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """The argument of `ReceiveMessage`: the source's outbound message, and what tells it apart. state: complete |
    partial | error; citations: as `shown_citations` makes them."""
    return {
        "messageId": str(run_id),
        "sessionId": session_key,
        "channel": channel,
        "recipientId": recipient_id,
        "role": "assistant",
        "text": text,
        "content": text,
        "state": state,
        "timestamp": timestamp,
        "attachments": [],
        "citations": [*citations],
    }
