"""Files that people add to an agent run: announced by signals, told to clients as snapshots of all. Synchronous.

Their bytes are artifacts of the session, uploaded before. There is nothing to be extracted in the background: a file is
ready, or it is not there.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.utils import timezone

from audit_app.kernel.errors import AppError, InvalidInput
from sessions_app.identity.principal import Principal
from sessions_app.models import Session
from sessions_app.surfaces.agent_messages import agent_runs, artifact_names, message_types, requests, session_writes
from sessions_app.surfaces.agent_messages.agent_runs import NAME
from tools_app.storage import artifacts

MOST_FILES = 200
_REFERENCE = "artifact:"
_UPLOADED = {"id": "text", "name": "text", "content_type": "text", "reference": "text", "artifact_path": "text"}
_CLOSED = {"batch_id": "text", "file_ids": "list", "failed_uploads": "list"}


def uploaded(principal: Principal, session: Session, body: Any) -> str:
    """Signal `FileUploaded`."""
    told = requests.checked(body, _UPLOADED)
    if not told.get("id") or not told.get("name"):
        raise InvalidInput("A file has an id and a name.", code="invalid_file")
    files = _files(session)
    if told["id"] not in files and len(files) >= MOST_FILES:
        raise InvalidInput(f"A run has at most {MOST_FILES} files.", code="too_many_files")
    path = told.get("artifact_path") or told.get("reference", "").removeprefix(_REFERENCE)
    now = _now_ms()
    file: dict[str, Any] = {
        "id": told["id"],
        "name": told["name"],
        "content_type": told.get("content_type", "application/octet-stream"),
        "size": 0,
        "status": "ready",
        "started_at": now,
        "completed_at": now,
    }
    try:
        view = artifacts.find_artifact(session.id, artifact_names.own_path(session.id, path))
        file |= {"size": view.size_bytes, "artifact_path": view.path, "reference": f"{_REFERENCE}{view.path}"}
    except AppError as error:
        file |= {"status": "error", "error": error.message}
    _keep(session, {**files, told["id"]: file})
    return "The file is ready." if file["status"] == "ready" else f"The file is not there: {file['error']}"


def removed(principal: Principal, session: Session, body: Any) -> str:
    """Signal `FileRemoved`: it is not told to the agent. Its bytes stay."""
    told = requests.checked(body, {"id": "text"})
    files = _files(session)
    if files.pop(told.get("id", ""), None) is not None:
        _keep(session, files)
    return "The file is forgotten."


def batch_closed(principal: Principal, session: Session, body: Any) -> str:
    """Signal `FileBatchClosed`: tells the agent of the files, once for each batch."""
    told = requests.checked(body, _CLOSED)
    batch_id = told.get("batch_id", "")
    if not batch_id:
        raise InvalidInput("batch_id is missing.", code="invalid_batch")
    files, wanted = _files(session), [str(name) for name in told.get("file_ids", ())]
    lines = [_line(files[name]) for name in wanted if name in files]
    for failed in told.get("failed_uploads", ()):
        if isinstance(failed, Mapping):
            why = failed.get("error") or "for a reason that was not told"
            lines.append(f"- {failed.get('name', 'a file')}: could not be uploaded, {why}")
    if not lines:
        return "There are no files to tell of."
    text = "\n".join(["[Files Ready]", *lines])
    session_writes.say(
        principal, session, text, key=f"batch:{batch_id}", act=partial(consume, session, wanted, batch_id)
    )
    return "The agent knows the files."


def consume(session: Session, names: list[str] | None = None, batch_id: str = "") -> None:
    """The agent was told of the files (all that are ready, without names): they wait for no message any more. To be
    done in the transaction of that message: told later, it could come after the message that ends the turn."""
    files, now = _files(session), _now_ms()
    fresh = {
        name: {**file, "consumed_at": now}
        for name, file in files.items()
        if (names is None or name in names) and file["status"] == "ready" and "consumed_at" not in file
    }
    if fresh:
        _keep(session, {**files, **fresh}, batch_id)


def _files(session: Session) -> dict[str, dict[str, Any]]:
    return dict((session.metadata.get(NAME) or {}).get("files") or {})


def _keep(session: Session, files: Mapping[str, Mapping[str, Any]], batch_id: str = "") -> None:
    agent_runs.change(session, files=files)
    session_writes.post(session, message_types.file_snapshot(list(files.values()), batch_id))


def _line(file: Mapping[str, Any]) -> str:
    if file["status"] != "ready":
        return f"- {file['name']}: not available, {file.get('error', '')}"
    return f"- {file['name']} ({file['content_type']}, {file['size']:,} bytes): {file['artifact_path']}"


def _now_ms() -> int:
    return int(timezone.now().timestamp() * 1000)
