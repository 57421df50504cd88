"""Tasks and agents as objects of the protocol."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agents_app.types import RunStatus, RunView
from sessions_app.surfaces.base.timestamps import iso
from tools_app.storage.artifacts import ArtifactView

ANSWER = "answer"  # the id of the artifact that is the answer
WORKING, INPUT_REQUIRED, AUTH_REQUIRED = "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"
INTERRUPTED = (INPUT_REQUIRED, AUTH_REQUIRED)
STATE_OF = {
    RunStatus.QUEUED: "TASK_STATE_SUBMITTED",
    RunStatus.RUNNING: WORKING,
    RunStatus.WAITING: WORKING,
    RunStatus.COMPLETED: "TASK_STATE_COMPLETED",
    RunStatus.FAILED: "TASK_STATE_FAILED",
    RunStatus.TIMED_OUT: "TASK_STATE_FAILED",
    RunStatus.CANCELLED: "TASK_STATE_CANCELED",
}
TASK_STATES = tuple(dict.fromkeys(["TASK_STATE_UNSPECIFIED", *STATE_OF.values(), *INTERRUPTED, "TASK_STATE_REJECTED"]))


@dataclass(frozen=True)
class Ask:
    """A request of a task to a person. state: INPUT_REQUIRED or AUTH_REQUIRED.

    data: the same as `text`, for programs.
    may_answer: the caller may answer it.
    """

    id: UUID
    run_id: UUID
    state: str
    text: str
    data: Mapping[str, Any]
    may_answer: bool


@dataclass(frozen=True)
class TaskMessage:
    """A message of the history. role: user or agent."""

    id: str
    role: str
    text: str


@dataclass(frozen=True)
class TaskFile:
    """A file that the task has written.

    data: its content, if that is short.
    url: of its content, if it is not.
    """

    view: ArtifactView
    data: bytes | None
    url: str


@dataclass(frozen=True)
class TaskView:
    """A task: a root run, with what its client sees of it. history, files: None where they are not shown.

    ask: the first request to a person that is open; None while the run goes on.
    answer: once it has ended.
    """

    run: RunView
    context_id: str
    ask: Ask | None = None
    answer: str = ""
    history: Sequence[TaskMessage] | None = None
    files: Sequence[TaskFile] | None = None

    @property
    def is_settled(self) -> bool:
        """True once it has ended or asks a person."""
        return self.run.status.is_terminal or self.ask is not None

    @property
    def state(self) -> str:
        return self.ask.state if self.ask else STATE_OF[self.run.status]


def task(view: TaskView) -> dict[str, Any]:
    """Return a task."""
    shown: dict[str, Any] = {"id": str(view.run.id), "contextId": view.context_id, "status": _status(view)}
    if view.files is not None:
        answer = [answer_artifact(view.answer)] if view.answer else []
        shown["artifacts"] = [*answer, *map(_file_artifact, view.files)]
    if view.history is not None:
        shown["history"] = [_message(view, each) for each in view.history]
    return shown


def answer_artifact(text: str) -> dict[str, Any]:
    """Return the answer, or a piece of it, as an artifact."""
    return {"artifactId": ANSWER, "name": ANSWER, "parts": [{"text": text, "mediaType": "text/markdown"}]}


def _status(view: TaskView) -> dict[str, Any]:
    run, ask = view.run, view.ask
    status: dict[str, Any] = {"state": view.state, "timestamp": iso(run.ended_at or run.started_at or run.created_at)}
    if ask:
        status["message"] = _message(view, TaskMessage(str(ask.id), "agent", ask.text))
        status["message"]["parts"].append({"data": dict(ask.data), "mediaType": "application/json"})
    elif run.error_message:
        status["message"] = _message(view, TaskMessage(f"end-{run.id}", "agent", run.error_message))
    return status


def _message(view: TaskView, message: TaskMessage) -> dict[str, Any]:
    return {
        "messageId": message.id,
        "contextId": view.context_id,
        "taskId": str(view.run.id),
        "role": "ROLE_USER" if message.role == "user" else "ROLE_AGENT",
        "parts": [{"text": message.text}],
    }


def _file_artifact(file: TaskFile) -> dict[str, Any]:
    view = file.view
    content = {"url": file.url} if file.data is None else {"raw": base64.b64encode(file.data).decode()}
    part = {**content, "filename": view.path.rpartition("/")[2], "mediaType": view.media_type}
    return {"artifactId": str(view.id), "name": view.path, "parts": [part]}


def agent_card(*, agent_id: str, name: str, description: str, version: int, origin: str) -> dict[str, Any]:
    """Return the card of an agent. origin: of this installation."""
    about = description or f"The agent {name}."
    interface = {"url": f"{origin}/a2a/{agent_id}", "protocolVersion": "1.0"}
    return {
        "name": name,
        "description": about,
        "supportedInterfaces": [{**interface, "protocolBinding": binding} for binding in ("JSONRPC", "HTTP+JSON")],
        "version": str(version),
        "capabilities": {"streaming": True, "pushNotifications": True, "extendedAgentCard": False},
        "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
        "defaultInputModes": ["text/plain", "application/json"],
        "defaultOutputModes": ["text/markdown"],
        # What the agent can do beyond that only those who may change it see.
        "skills": [{"id": agent_id, "name": name, "description": about, "tags": ["chat"]}],
    }
