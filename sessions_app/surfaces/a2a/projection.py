"""A task as the updates of a stream. No database, no clock.

The answer is one artifact, which grows with the text of the step that is open. The text of the next step, and one that
a worker begins again after a crash, replaces it. All else is compared with what the client has whenever an event says
that the task may have changed.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from agents_app.events import RUN_ENDS, RUN_STARTED, RUN_WAITING
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.step_text import StepText
from sessions_app.surfaces.a2a.responses import ANSWER, WORKING, answer_artifact
from sessions_app.surfaces.base.step_parts import Part, PartChange, StepParts
from tools_app.events import APPROVAL_DECIDED, APPROVAL_REQUESTED, INPUT_REQUESTED

Update = dict[str, Any]
_CHANGES = (RUN_STARTED.name, RUN_WAITING.name, APPROVAL_REQUESTED.name, APPROVAL_DECIDED.name, INPUT_REQUESTED.name)


class TaskUpdates:
    """Encodes a task for one stream."""

    def __init__(self, task_id: UUID, context_id: str) -> None:
        self._task_id, self._ids = task_id, {"taskId": str(task_id), "contextId": context_id}
        self._parts = StepParts(lambda run_id, step, kind: Part(run_id, step, kind, StepText()))
        self._text = ""  # of the answer, as the client has it
        self._status: Mapping[str, Any] = {}
        self._files: set[str] = set()

    def begin(self, task: Mapping[str, Any]) -> list[Update]:
        """Return the first update: the task as it is."""
        self._note(task)
        return [{"task": task}]

    def may_change(self, event: SessionEvent) -> bool:
        """Return whether the status of the task may be another after an event."""
        if event.type in RUN_ENDS:
            return event.run_id == self._task_id
        return event.type in _CHANGES or (event.seq is not None and self._status.get("state") != WORKING)

    def see(self, event: SessionEvent) -> list[Update]:
        """Return the updates of the answer for an event. Texts of workstreams are not the answer."""
        if event.run_id != self._task_id:
            return []
        changes = [change for change in self._parts.see(event) if change.part.kind == "text"]
        return [self._chunk(change) for change in changes if change.starts or change.restarts or change.piece]

    def whole_text(self) -> list[Update]:
        """Return the text that is open, for a client that was sent none of its pieces."""
        return [self._artifact(answer_artifact(self._text))] if self._text else []

    def refresh(self, task: Mapping[str, Any]) -> list[Update]:
        """Return the updates for the task as it is now: new files, the answer if it differs, the status last."""
        before, text, files = self._status, self._text, set(self._files)
        self._note(task)
        sent = [
            self._artifact(artifact, last_chunk=True)
            for artifact in task.get("artifacts", ())
            if (
                self._text.strip() != text.strip()
                if artifact["artifactId"] == ANSWER
                else artifact["artifactId"] not in files
            )
        ]
        if self._status != before:
            sent.append({"statusUpdate": {**self._ids, "status": self._status}})
        return sent

    def _note(self, task: Mapping[str, Any]) -> None:
        """Store what the client has with the task."""
        self._status = task["status"]
        for artifact in task.get("artifacts", ()):
            if artifact["artifactId"] == ANSWER:
                self._text = artifact["parts"][0]["text"]
            else:
                self._files.add(artifact["artifactId"])

    def _chunk(self, change: PartChange) -> Update:
        replaces = change.starts or change.restarts
        self._text = change.piece if replaces else self._text + change.piece
        return self._artifact(answer_artifact(change.piece), append=not replaces)

    def _artifact(self, artifact: Mapping[str, Any], *, append: bool = False, last_chunk: bool = False) -> Update:
        flags = {"append": append, "lastChunk": last_chunk}
        return {"artifactUpdate": {**self._ids, "artifact": artifact, **flags}}
