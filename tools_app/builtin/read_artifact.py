"""`read_artifact`: reads a file of the session, or lists its files."""

import base64
from dataclasses import dataclass, field
from typing import Any

from audit_app.kernel.errors import AppError
from tools_app.documents import document_text
from tools_app.parameters import integer, parameters, text
from tools_app.storage import artifacts
from tools_app.storage.artifact_paths import MAX_CHARACTERS
from tools_app.storage.artifacts import ArtifactView
from tools_app.types import Effect, Reads, Risk, TargetKind, Tool, ToolContext, ToolError, ToolSpec
from tools_app.types.pictures import Picture, media_type_of

_DEFAULT_CHARACTERS = 20_000
_MAX_CHARACTERS = 100_000
_QUOTE_CHARACTERS = 300


class ReadArtifact(Tool):
    needs_run = True
    spec = ToolSpec(
        name="read_artifact",
        description="Read a file of this conversation (documents as text, pictures shown, else base64), or list files.",
        parameters=parameters(
            path=text("Default: list.", maxLength=MAX_CHARACTERS),
            offset=integer("First character.", 0),
            max_characters=integer(f"Default {_DEFAULT_CHARACTERS}.", 1, _MAX_CHARACTERS),
        ),
        effect=Effect.READ,
        risk=Risk.LOW,
        timeout_seconds=30,
        has_sources=True,
        targets={"path": TargetKind.PATH},
        reads=Reads.STORED,
        sends=(),
    )

    def check(self, arguments: dict[str, Any]) -> None:
        try:
            if path := arguments.get("path"):
                artifacts.check(path)
        except AppError as error:
            raise ToolError(error.message) from None

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return a file or the list of files. A picture is shown, and has no content unless a part of it is wanted.

        File: {"path", "media_type", "bytes", "sha256", "encoding": "text" | "base64", "content", "characters": of the
        whole, "next_offset": or null, "sources", "origins"}. Of a document, `content` is its text, with {"page_count":
        if known, "is_cut": if its text is longer than `characters`}. List: {"files": [{"path", "media_type", "bytes"}],
        "origins"}.
        """
        path = arguments.get("path", "")
        if not path:
            listed = artifacts.list_artifacts(context.session_id)
            origins = dict.fromkeys(origin for artifact in listed for origin in artifact.origins)
            return {"files": [_entry(artifact) for artifact in listed], "origins": list(origins)}
        try:
            child_id = context.run_id if context.parent_run_id else None
            artifact, data = artifacts.read_artifact(context.session_id, path, child_id=child_id)
        except AppError as error:
            raise ToolError(error.message) from None
        if (media_type := media_type_of(data)) and not arguments.keys() & {"offset", "max_characters"}:
            size, digest = artifact.size_bytes, artifact.sha256
            context.pictures.append(Picture(str(artifact.id), digest, artifact.path, media_type, size))
            return {**_entry(artifact), "sha256": digest, "origins": list(artifact.origins)}
        found = _content(artifact.path, data)
        offset, length = arguments.get("offset", 0), arguments.get("max_characters", _DEFAULT_CHARACTERS)
        content = found.text[offset : offset + length]
        end = offset + len(content)
        quote = {"quote": content[:_QUOTE_CHARACTERS], "offset": offset} if found.encoding == "text" else {"quote": ""}
        return {
            **_entry(artifact),
            "sha256": artifact.sha256,
            "encoding": found.encoding,
            "content": content,
            "characters": len(found.text),
            **found.of_document,
            "next_offset": end if end < len(found.text) else None,
            "sources": [{"uri": f"artifact:{artifact.path}", "title": artifact.path, **quote}],
            "origins": list(artifact.origins),
        }


def _entry(artifact: ArtifactView) -> dict[str, Any]:
    return {"path": artifact.path, "media_type": artifact.media_type, "bytes": artifact.size_bytes}


@dataclass(frozen=True)
class _Content:
    encoding: str
    text: str
    of_document: dict[str, Any] = field(default_factory=dict)


def _content(path: str, data: bytes) -> _Content:
    """Return UTF-8 without NUL as it is, the text of a document, other bytes as base64. Raises ToolError."""
    if document := document_text.read(data):
        if document.problem:
            raise ToolError(f"The text of {path} could not be read: {document.problem}.")
        known = {"page_count": document.page_count, "is_cut": document.is_cut or None}
        return _Content("text", document.text, {name: value for name, value in known.items() if value is not None})
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return _Content("base64", base64.b64encode(data).decode())
    return _Content("text", text)
