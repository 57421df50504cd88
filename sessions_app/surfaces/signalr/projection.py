"""Projection of a session's events to invocations of the client's handlers.

`AgentTyping`, `ReceiveToken` and `ReceiveMessage` have the arguments of the original hub, as some clients bind handlers
by their number. Clients that ask for positions get one more, with the session, the message and the id from which to
resume. The other handlers are extensions of this server.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from agents_app.events import RUN_COMPLETED, RUN_ENDS, RUN_QUEUED, RUN_STARTED
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.append_only_text import AppendedTexts
from tools_app import events as tools
from tools_app.types import Decision

Call = tuple[str, list[Any]]  # (target, arguments)

_TARGETS = {
    tools.TOOL_REQUESTED.name: "ToolStarted",
    tools.TOOL_PROGRESS.name: "ToolProgress",
    tools.TOOL_COMPLETED.name: "ToolCompleted",
    tools.TOOL_FAILED.name: "ToolCompleted",
    tools.APPROVAL_REQUESTED.name: "ApprovalRequested",
    tools.APPROVAL_DECIDED.name: "ApprovalDecided",
    tools.INPUT_REQUESTED.name: "InputRequested",
}
_INTERNAL = frozenset(
    {"allows_text", "call_id", "origins", "questions", "run_pattern", "text_length"}
)  # payload keys that are not sent


class HubProjection:
    """One session for one connection.

    agent_id: the session's agent, for runs whose start was not seen.
    allowed_decisions: decisions on approval requests that the caller may make.
    has_positions: whether the client asked for positions.
    """

    def __init__(
        self,
        session_key: str,
        agent_id: str,
        allowed_decisions: Collection[Decision] = (),
        *,
        has_positions: bool = False,
    ) -> None:
        self._session_key = session_key
        self._has_positions = has_positions
        self._allowed_decisions = allowed_decisions
        self._agents: dict[UUID, str] = {}
        self._agent_id = agent_id
        self._texts = AppendedTexts()
        self._typing = False  # as the client was told

    def recall(self, kept: Sequence[SessionEvent], shown: Sequence[SessionEvent] | None) -> None:
        """Restore the state of a run that the client resumes.

        kept: the run's stored events up to the client's cursor.
        shown: live events with the text of the open step that the client has; None if that is unknown. The text is
        then sent whole, as one that differs.
        """
        for event in (*kept, *(shown or ())):
            self.calls(event)
            if event.run_id and (shown is None or event.payload.get("text_length")):
                self._texts.begin(event.run_id)

    def calls(self, event: SessionEvent) -> list[Call]:
        """Return the calls for an event. At the end of a run, `end` returns the calls that follow these."""
        if event.run_id is None:
            return []
        if event.type in (RUN_QUEUED.name, RUN_STARTED.name):
            self._agents[event.run_id] = event.payload["agent_id"]
        agent_id, at = self._agents.get(event.run_id, self._agent_id), self._at(event)
        if event.type in (RUN_QUEUED.name, RUN_STARTED.name):
            is_typing, self._typing = self._typing, True
            return [] if is_typing else [("AgentTyping", [agent_id, True, *self._position(event)])]
        if event.type in RUN_ENDS:
            return [("ReceiveToken", [agent_id, None, True, *self._position(event)])]
        calls: list[Call] = []
        if piece := self._texts.see(event):
            calls.append(("ReceiveToken", [agent_id, piece, False, *self._position(event)]))
        if target := _TARGETS.get(event.type):
            calls.append((target, [agent_id, {**self._fields(event.payload), **_child_of(event), **at}]))
        return calls

    def end(self, run_id: UUID, event: SessionEvent, message: dict[str, Any]) -> list[Call]:
        """Return the calls that follow the last token of a run. message: of `commands.read_message`."""
        agent_id, at = self._agents.pop(run_id, self._agent_id), self._at(event)
        self._typing = False
        self._texts.forget(run_id)
        calls: list[Call] = []
        if message["text"]:
            calls.append(("ReceiveMessage", [{**message, "agentId": agent_id, "eventId": event.cursor}]))
        if event.type != RUN_COMPLETED.name:
            end = RUN_COMPLETED.payload(event)
            calls.append(("RunFailed", [agent_id, {"code": end["code"], "message": end["message"], **at}]))
        return [*calls, ("AgentTyping", [agent_id, False, *self._position(event)])]

    def _fields(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        fields = {_camel_case(key): payload[key] for key in sorted(payload.keys() - _INTERNAL)}
        if "choices" in fields:
            fields["choices"] = [choice for choice in fields["choices"] if choice in self._allowed_decisions]
        return fields

    def _position(self, event: SessionEvent) -> list[dict[str, Any]]:
        return [self._at(event)] if self._has_positions else []

    def _at(self, event: SessionEvent) -> dict[str, Any]:
        return {"sessionId": self._session_key, "messageId": str(event.run_id), "eventId": event.cursor}


def _child_of(event: SessionEvent) -> dict[str, str]:
    """Return what names the workstream that an event is of: nothing for the run that answers."""
    if event.parent_run_id is None:
        return {}
    return {"parentRunId": str(event.parent_run_id), "workstream": event.workstream}


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
