"""`write_artifact`: writes a file of the session."""

from typing import Any
from uuid import UUID

from audit_app.kernel.errors import AppError
from tools_app.models import ToolExecution
from tools_app.parameters import parameters, text
from tools_app.policy import readings
from tools_app.storage import artifact_paths, artifact_versions, artifacts
from tools_app.storage.artifact_paths import MAX_CHARACTERS
from tools_app.types import Change, Effect, Reads, Risk, TargetKind, Tool, ToolContext, ToolError, ToolSpec

_MAX_CONTENT_CHARACTERS = 200_000
_SHOWN_CHARACTERS = 20_000


class WriteArtifact(Tool):
    needs_run = True
    spec = ToolSpec(
        name=artifact_versions.WRITE_ARTIFACT,
        description="Write a file of this conversation: results below out/, all else below files/.",
        parameters=parameters(
            "path",
            "content",
            path=text("Such as out/report.md.", minLength=1, maxLength=MAX_CHARACTERS),
            content=text("", maxLength=_MAX_CONTENT_CHARACTERS),
            encoding={"enum": ["text", "base64"], "default": "text", "description": "Of the content."},
            media_type=text("Default: by name.", maxLength=120),
        ),
        effect=Effect.KEYED,  # by its path: writing the same again changes nothing
        risk=Risk.LOW,
        timeout_seconds=30,
        targets={"path": TargetKind.PATH},
        reads=Reads.NOTHING,
        sends=(),
    )

    def risk_of(self, arguments: dict[str, Any]) -> Risk:
        """Return low for out/, the agent's own folder, medium for files/, which belongs to users."""
        return Risk.LOW if arguments["path"].startswith("out/") else Risk.MEDIUM

    def check(self, arguments: dict[str, Any]) -> None:
        _bytes(arguments)
        try:
            artifacts.check(arguments["path"], arguments.get("media_type", ""))
        except AppError as error:
            raise ToolError(error.message) from None

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return {"path", "bytes", "sha256", "media_type"}. path: that of a child run's file is in its own folder."""
        is_child = context.parent_run_id is not None
        try:
            origins = readings.list_origins(context.session_id)
            writer = artifacts.Writer(context.session_id, context.run_id, context.agent_id, origins)
            media_type = arguments.get("media_type", "")
            path = _place(arguments["path"], context.run_id, is_child)
            written = artifacts.write_artifact(writer, path, _bytes(arguments), media_type=media_type)
        except AppError as error:
            raise ToolError(error.message) from None
        stored = {"path": written.path, "bytes": written.size_bytes}
        return {**stored, "sha256": written.sha256, "media_type": written.media_type}

    def preview(self, arguments: dict[str, Any], *, run_id: UUID, session_id: UUID, agent_id: str) -> Change | None:
        """Return the file before and after, if it is text."""
        if arguments.get("encoding", "text") != "text":
            return None
        try:
            path = _place(arguments["path"], run_id, _is_child(run_id))
            before = artifacts.read_artifact(session_id, path)[1].decode()
        except (AppError, UnicodeDecodeError):
            before = ""
        after = arguments["content"]
        return Change(before[:_SHOWN_CHARACTERS], after[:_SHOWN_CHARACTERS], arguments["path"])


def _place(path: str, run_id: UUID, is_child: bool) -> str:
    """Return the path at which a run stores the file that it calls so."""
    return artifact_paths.of_child(path, run_id) if is_child else path


def _is_child(run_id: UUID) -> bool:
    return ToolExecution.objects.filter(run_id=run_id, parent_run_id__isnull=False).exists()


def _bytes(arguments: dict[str, Any]) -> bytes:
    try:
        return artifact_versions.decoded(arguments["content"], arguments.get("encoding", "text"))
    except ValueError:
        raise ToolError("The content is not valid base64.") from None
