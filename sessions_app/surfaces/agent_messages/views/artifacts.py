"""Files of a run: lists, signed URLs, editable text, and the bytes."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar
from uuid import UUID

from django.contrib.auth.models import User
from django.http import HttpResponse
from django.utils.http import content_disposition_header
from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import InvalidInput, NotFound
from sessions_app.models import Session
from sessions_app.surfaces.agent_messages import (
    agent_runs,
    artifact_names,
    conversation_file,
    message_types,
    requests,
    session_writes,
    signed_urls,
)
from sessions_app.surfaces.agent_messages.agent_runs import AgentRun
from sessions_app.surfaces.agent_messages.operations import query_value
from sessions_app.surfaces.agent_messages.signed_urls import FileAccess
from sessions_app.surfaces.agent_messages.views.base import AgentsView
from sessions_app.surfaces.base.bodies import BodyTooLarge, clean
from sessions_app.surfaces.base.openapi.operations import Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import BINARY, COUNT, OBJECT, TEXT, list_of, record
from tools_app import conf
from tools_app.storage import artifact_paths, artifacts
from tools_app.storage.artifacts import ArtifactView

_VISIBILITIES = ("user", "internal", "all")
_DISPOSITIONS = ("inline", "attachment")
_CONTENT = {"content": "string", "generation": "string"}
_BYTES = Answer("The content.", media_type="*/*")
_FILE_QUERY = [
    query_value("url", "Return a URL.", "1", "true"),
    query_value("filename", "The file name for the URL."),
    query_value("disposition", "The content disposition for the URL.", *_DISPOSITIONS),
]
_FILE_TEXT = dict.fromkeys(_CONTENT, TEXT)
_NEW_TEXT = {"type": "object", "required": list(_FILE_TEXT), "properties": _FILE_TEXT}
# A file may be an HTML page: browsers show it without an origin, and without scripts.
_SANDBOX = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'"


class _SigningView(AgentsView):
    def signed_for_download(self, run: AgentRun, path: str, disposition: str, filename: str) -> dict[str, Any]:
        return self._signed(FileAccess("get", run.id, path, disposition, filename[:200]))

    def signed_for_upload(self, run: AgentRun, path: str) -> dict[str, Any]:
        try:
            path = artifact_paths.checked(path)
        except artifact_paths.BadPathError as error:
            raise InvalidInput(str(error), code="bad_path") from None
        return self._signed(FileAccess("put", run.id, path))

    def _signed(self, access: FileAccess) -> dict[str, Any]:
        url = signed_urls.sign(self.request.build_absolute_uri("/")[:-1], access, self.principal)
        return {"url": url, "path": artifact_names.storage_path(access.session_id, access.path)}


class ArtifactList(AgentsView):
    @Operation(
        "List the files of a run", list_of(TEXT), parameters=[query_value("visibility", "Which files.", *_VISIBILITIES)]
    )
    def get(self, request: Request, run_id: str) -> Response:
        run, visibility = self.agent_run(run_id), self.query_values().get("visibility", "user")
        if visibility not in _VISIBILITIES:
            raise InvalidInput(f"`visibility` must be one of {', '.join(_VISIBILITIES)}.", code="invalid_visibility")
        if visibility == "internal":
            return Response([])  # this server keeps no internal files among a run's files
        return Response([file.path for file in artifacts.list_artifacts(run.session.id)])


class ArtifactDetail(_SigningView):
    """GET: the bytes, or with `?url=1` a signed URL to read them. PUT: a signed URL to write them."""

    @Operation("Read a file, or get a URL for it", answers={200: _BYTES}, parameters=_FILE_QUERY)
    def get(self, request: Request, run_id: str, path: str) -> HttpResponse:
        query = self.query_values()
        disposition, filename = _disposition(query.get("disposition")), query.get("filename", "")
        is_url = query.get("url", "") in ("1", "true")
        if path == conversation_file.NAME:
            return self._transcript(run_id, disposition, filename, is_url=is_url)
        run = self.agent_run(run_id)
        path = artifact_names.own_path(run.id, path)
        if is_url:
            view = artifacts.find_artifact(run.session.id, path)
            return Response(self.signed_for_download(run, view.path, disposition, filename))
        return send_file(*artifacts.read_artifact(run.session.id, path), disposition, filename)

    def _transcript(self, run_id: str, disposition: str, filename: str, *, is_url: bool) -> HttpResponse:
        """Return the messages of the run, or of a child run, as a file."""
        run, workstream = conversation_file.find_run(self.principal.user, run_id)
        path = conversation_file.path_of(workstream)
        if is_url:
            return Response(self.signed_for_download(run, path, disposition, filename))
        return _send_transcript(self.principal.user, run, path, disposition, filename)

    @Operation("Get a URL to upload a file", record({"url": TEXT, "path": TEXT}), errors=[400])
    def put(self, request: Request, run_id: str, path: str) -> Response:
        run = self.agent_run(run_id)
        return Response(self.signed_for_upload(run, artifact_names.own_path(run.id, path)))


class ArtifactContent(AgentsView):
    """A text and its generation. A PUT must carry the present generation, else it is answered with 409."""

    @Operation("Read a text file", record({"path": TEXT, **_FILE_TEXT}), errors=[400])
    def get(self, request: Request, run_id: str, path: str) -> Response:
        run = self.agent_run(run_id)
        view, data = artifacts.read_artifact(run.session.id, artifact_names.own_path(run.id, path))
        return Response({"path": view.path, "content": _as_text(data), "generation": view.sha256})

    @Operation("Change a text file", record({"path": TEXT, "generation": TEXT}), errors=[409], body=_NEW_TEXT)
    def put(self, request: Request, run_id: str, path: str) -> Response:
        run, body = self.agent_run(run_id), requests.checked(request.data, _CONTENT)
        if "content" not in body or not body.get("generation"):
            raise InvalidInput("`content` and `generation` are required.", code="invalid_value")
        path = artifact_names.own_path(run.id, path)
        known = artifacts.find_artifact(run.session.id, path)
        data, generation = body["content"].encode(), body["generation"]
        view = artifacts.write_artifact(
            artifacts.Writer(run.session.id), path, data, media_type=known.media_type, expected_sha256=generation
        )
        details = {"path": view.path, "source": "user_edit", "generation": view.sha256}
        session_writes.post_message(run.session, message_types.update("", "artifact_updated", **details))
        return Response({"path": view.path, "generation": view.sha256})


class Blob(AgentsView):
    """The bytes of a file, by a signed URL."""

    is_public = True

    @Operation("Read a file by its URL", answers={200: _BYTES}, access="open", errors=[403])
    def get(self, request: Request, token: str, name: str = "") -> HttpResponse:
        access, session, user = _access(request, token, "get")
        if conversation_file.is_transcript(access.path):
            run = agent_runs.load(session)
            return _send_transcript(user, run, access.path, access.disposition, access.filename)
        return send_file(*artifacts.read_artifact(session.id, access.path), access.disposition, access.filename)

    @Operation(
        "Upload a file by its URL",
        record({"path": TEXT, "size": COUNT}),
        body=BINARY,
        media_type="*/*",
        access="open",
        errors=[403],
    )
    def put(self, request: Request, token: str, name: str = "") -> Response:
        access, session, _ = _access(request, token, "put")
        most, _ = conf.artifact_limits()
        data = request._request.read(most + 1)
        if len(data) > most:
            raise BodyTooLarge(f"The file is larger than {most:,} bytes.")
        media_type = (request.content_type or "").partition(";")[0]
        view = artifacts.write_artifact(artifacts.Writer(session.id), access.path, data, media_type=media_type)
        return Response({"path": artifact_names.storage_path(session.id, view.path), "size": view.size_bytes})


class _FileUrl(_SigningView, ABC):
    key: ClassVar[str]  # of the storage path in the body

    def post(self, request: Request) -> Response:
        """`download-url` and `upload-url`: signed URLs of files, by their storage path."""
        body = clean(requests.as_object(request.data))
        named = body.get(self.key) or body.get("name") or ""
        run_id, path = artifact_names.split_storage_path(named if isinstance(named, str) else "")
        if not path:
            raise NotFound("File paths have the form agents/<run>/<path>.", code="no_such_file")
        signed, media_type = self.sign(self.agent_run(run_id), path, body)
        return Response({**signed, "id": named, "mime_type": media_type})

    @abstractmethod
    def sign(self, run: AgentRun, path: str, body: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Return the URL of a run's file and the media type of the file."""


class DownloadUrl(_FileUrl):
    key = "file"
    post = Operation("Get a URL to read a file", OBJECT, body=OBJECT, errors=[404])(_FileUrl.post)

    def sign(self, run: AgentRun, path: str, body: dict[str, Any]) -> tuple[dict[str, Any], str]:
        disposition = _disposition(body.get("disposition"))
        view = artifacts.find_artifact(run.session.id, path)
        return self.signed_for_download(run, view.path, disposition, str(body.get("name") or "")), view.media_type


class UploadUrl(_FileUrl):
    key = "id"
    post = Operation("Get a URL to upload a file", OBJECT, body=OBJECT, errors=[404])(_FileUrl.post)

    def sign(self, run: AgentRun, path: str, body: dict[str, Any]) -> tuple[dict[str, Any], str]:
        return self.signed_for_upload(run, path), body.get("mime_type") or "application/octet-stream"


class FileList(AgentsView):
    """Storage paths that begin with `prefix`, which must contain a run's folder."""

    @Operation(
        "List files by prefix",
        record({"files": list_of(TEXT)}),
        errors=[404],
        parameters=[query_value("prefix", "agents/<run>/…")],
    )
    def get(self, request: Request) -> Response:
        prefix = self.query_values().get("prefix", "").lstrip("/")
        run_id = prefix.removeprefix("agents/").partition("/")[0]
        run = self.agent_run(run_id)
        files = [artifact_names.storage_path(run.id, file.path) for file in artifacts.list_artifacts(run.session.id)]
        return Response({"files": [path for path in files if path.startswith(prefix)]})


def send_file(view: ArtifactView, data: bytes, disposition: str, filename: str) -> HttpResponse:
    return _send(data, view.media_type, disposition, filename or view.path.rpartition("/")[2])


def _send_transcript(user: User, run: AgentRun, path: str, disposition: str, filename: str) -> HttpResponse:
    return _send(
        conversation_file.read(user, run, path), "application/json", disposition, filename or conversation_file.NAME
    )


def _send(data: bytes, media_type: str, disposition: str, filename: str) -> HttpResponse:
    response = HttpResponse(data, content_type=media_type)
    name = "".join(filter(str.isprintable, filename)) or "file"
    response.headers["Content-Disposition"] = content_disposition_header(disposition == "attachment", name) or "inline"
    response.headers["Content-Security-Policy"] = _SANDBOX
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def _access(request: Request, token: str, use: str) -> tuple[FileAccess, Session, User]:
    """Return the access of a signed URL, its session and its user. Raises UrlRefused."""
    access, user = signed_urls.read(token, request._request)
    session = Session.objects.filter(pk=UUID(access.session_id), owner=user, deleted_at=None).first()
    if access.use != use or session is None:
        raise signed_urls.UrlRefused
    return access, session, user


def _disposition(value: Any) -> str:
    """Return the disposition, inline by default. Raises InvalidInput."""
    if value not in (*_DISPOSITIONS, "", None):
        raise InvalidInput("`disposition` must be inline or attachment.", code="invalid_disposition")
    return value or "inline"


def _as_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidInput("The file is not text.", code="not_text") from None
