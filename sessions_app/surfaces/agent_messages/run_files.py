"""Files that the user adds to an agent run: announced by signals, sent to clients as snapshots of all. Synchronous.

Their bytes are artifacts of the session, uploaded before the signal. Nothing is extracted in the background: a file is
ready, or it is missing.
"""

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from audit_app.kernel.errors import AppError, InvalidInput
from sessions_app.attachments import uploads
from sessions_app.identity.principal import Principal
from sessions_app.models import Session
from sessions_app.surfaces.agent_messages import (
    agent_runs,
    artifact_names,
    attached_files,
    message_types,
    requests,
    session_writes,
)
from sessions_app.surfaces.agent_messages.agent_runs import NAME
from sessions_app.surfaces.agent_messages.session_writes import UserMessage
from tools_app.storage import artifacts

MOST_FILES = 200
_REFERENCE = "artifact:"
_UPLOADED = dict.fromkeys(("id", "name", "content_type", "reference", "artifact_path"), "string")
_CLOSED = {"batch_id": "string", "file_ids": "array", "failed_uploads": "array"}


def file_uploaded(principal: Principal, session: Session, body: Any) -> str:
    """Handle the signal `FileUploaded`: list the file. Return the outcome for people."""
    fields = requests.checked(body, _UPLOADED)
    if not fields.get("id") or not fields.get("name"):
        raise InvalidInput("A file needs `id` and `name`.", code="invalid_file")
    files = _files(session)
    if fields["id"] not in files and len(files) >= MOST_FILES:
        raise InvalidInput(f"A run can have at most {MOST_FILES} files.", code="too_many_files")
    path = fields.get("artifact_path") or fields.get("reference", "").removeprefix(_REFERENCE)
    media_type, now = fields.get("content_type", "application/octet-stream"), _now_ms()
    file: dict[str, Any] = {"id": fields["id"], "name": fields["name"], "content_type": media_type, "size": 0}
    file |= {"status": "ready", "started_at": now, "completed_at": now}
    try:
        view = artifacts.find_artifact(session.id, artifact_names.own_path(session.id, path))
        file |= {"size": view.size_bytes, "artifact_path": view.path, "reference": f"{_REFERENCE}{view.path}"}
    except AppError as error:
        file |= {"status": "error", "error": error.message}
    _store(session, {**files, fields["id"]: file})
    return "The file is ready." if file["status"] == "ready" else f"The file is missing: {file['error']}"


def file_removed(principal: Principal, session: Session, body: Any) -> str:
    """Handle the signal `FileRemoved`: remove the file from the list, but keep its bytes. The agent gets no message."""
    fields = requests.checked(body, {"id": "string"})
    files = _files(session)
    if files.pop(fields.get("id", ""), None) is not None:
        _store(session, files)
    return "The file was removed."


def batch_closed(principal: Principal, session: Session, body: Any) -> str:
    """Handle the signal `FileBatchClosed`: send the agent a message with the files. Idempotent for each batch."""
    fields = requests.checked(body, _CLOSED)
    batch_id = fields.get("batch_id", "")
    if not batch_id:
        raise InvalidInput("`batch_id` is missing.", code="invalid_batch")
    files, file_ids = _files(session), [str(name) for name in fields.get("file_ids", ())]
    lines = [_line(files[name]) for name in file_ids if name in files]
    lines += [
        f"- {failed.get('name', 'a file')}: could not be uploaded, {failed.get('error') or 'no reason'}"
        for failed in fields.get("failed_uploads", ())
        if isinstance(failed, Mapping)
    ]
    if not lines:
        return "The batch has no files."
    text = "\n".join(["[Files Ready]", *lines])
    shown = attached_files.show(principal.user, session, [files[name] for name in file_ids if name in files])
    with uploads.unsent_discarded(shown) as shown_ids:
        message = UserMessage(
            text,
            key=f"batch:{batch_id}",
            act=lambda _: mark_consumed(session, file_ids, batch_id),
            files=shown_ids,
            files_digest="\n".join(row.sha256 for row in shown),
        )
        session_writes.send_user_message(principal, session, message)
    return "The agent has the list of files."


def list_fresh(session: Session) -> tuple[list[Mapping[str, Any]], bool]:
    """Return the files that are ready and that the agent does not know, and whether the run has had files."""
    files = _files(session)
    return [file for file in files.values() if file["status"] == "ready" and "consumed_at" not in file], bool(files)


def mark_consumed(session: Session, file_ids: list[str] | None = None, batch_id: str = "") -> None:
    """Store that the agent has the list of these files, or of all that are ready.

    Call it in the transaction of the agent's message: the snapshot could otherwise follow the message that ends the
    turn, and clients would show the agent as working.
    """
    files, now = _files(session), _now_ms()
    fresh = {
        name: {**file, "consumed_at": now}
        for name, file in files.items()
        if (file_ids is None or name in file_ids) and file["status"] == "ready" and "consumed_at" not in file
    }
    if fresh:
        _store(session, {**files, **fresh}, batch_id)


def _files(session: Session) -> dict[str, dict[str, Any]]:
    return dict((session.metadata.get(NAME) or {}).get("files") or {})


def _store(session: Session, files: Mapping[str, Mapping[str, Any]], batch_id: str = "") -> None:
    agent_runs.update_metadata(session, files=files)
    session_writes.post_message(session, message_types.file_snapshot(list(files.values()), batch_id))


def _line(file: Mapping[str, Any]) -> str:
    if file["status"] != "ready":
        return f"- {file['name']}: not available, {file.get('error', '')}"
    return f"- {file['name']} ({file['content_type']}, {file['size']:,} bytes): {file['artifact_path']}"


def _now_ms() -> int:
    return int(timezone.now().timestamp() * 1000)
