"""Earlier contents of artifacts: those that calls of `write_artifact` have stored, read from their arguments.

The content of an upload that was replaced is not kept.
"""

import base64
import binascii
import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from audit_app.kernel.errors import NotFound
from tools_app.models import ToolExecution
from tools_app.storage import artifact_paths
from tools_app.storage.artifacts import ArtifactView
from tools_app.types import ExecutionStatus

WRITE_ARTIFACT = "write_artifact"
_MOST_CALLS = 500

Runs = QuerySet[Any, Any] | Collection[UUID]


@dataclass(frozen=True)
class Version:
    """An earlier content of a file.

    call_id: execution that stored it.
    number: from 1, the oldest.
    sha256: of the content, in hexadecimal.
    """

    call_id: UUID
    number: int
    sha256: str
    written_at: datetime


def list_versions(artifact: ArtifactView, run_ids: Runs) -> tuple[Version, ...]:
    """Return the earlier contents of a file, the newest first. run_ids: of the session's runs. One query.

    A content that was stored several times in a row is listed once. Reads the last 500 calls, without their arguments.
    """
    names = artifact_paths.aliases(artifact.path)
    stored: list[tuple[UUID, str, datetime]] = []
    for call_id, output, written_at in _calls(artifact, run_ids):
        path, digest = _written(output or "")
        if path in names and digest and digest != (stored[-1][1] if stored else ""):
            stored.append((call_id, digest, written_at))
    if stored and stored[-1][1] == artifact.sha256:
        stored.pop()
    numbered = [Version(call_id, number, digest, at) for number, (call_id, digest, at) in enumerate(stored, 1)]
    return tuple(reversed(numbered))


def _calls(artifact: ArtifactView, run_ids: Runs) -> list[tuple[UUID, str | None, datetime]]:
    """Return the last calls that may have written the file, oldest first: id, output, time."""
    child = artifact_paths.child_of(artifact.path)
    calls = ToolExecution.objects.filter(
        run_id__in=[child[0]] if child else run_ids, tool=WRITE_ARTIFACT, status=ExecutionStatus.COMPLETED.value
    )
    return list(calls.order_by("-id").values_list("id", "output", "created_at")[:_MOST_CALLS])[::-1]


def read_version(version: Version) -> bytes:
    """Return the content of a version. Raises NotFound if the call no longer has it."""
    arguments = ToolExecution.objects.filter(pk=version.call_id).values_list("arguments", flat=True).first() or {}
    try:
        data = decoded(str(arguments.get("content", "")), str(arguments.get("encoding", "text")))
    except ValueError:
        data = b""
    if sha256(data).hexdigest() != version.sha256:
        raise NotFound("This version of the file is no longer kept.")
    return data


def decoded(content: str, encoding: str) -> bytes:
    """Return the bytes of the content of a call. encoding: text or base64. Raises ValueError."""
    if encoding == "text":
        return content.encode()
    try:
        return base64.b64decode("".join(content.split()), validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _written(output: str) -> tuple[str, str]:
    """Return the path and the sha256 that a call returned; empty texts for none."""
    try:
        written = json.loads(output)
    except ValueError:
        return "", ""
    return (str(written.get("path", "")), str(written.get("sha256", ""))) if isinstance(written, dict) else ("", "")
