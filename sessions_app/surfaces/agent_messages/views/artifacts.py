"""Files of a run: lists, signed addresses, contents that can be changed, and the bytes themselves."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.utils.http import content_disposition_header
from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import InvalidInput, NotFound
from sessions_app.models import Session
from sessions_app.surfaces.agent_messages import artifact_names, message_types, requests, session_writes, signed_urls
from sessions_app.surfaces.agent_messages.agent_runs import AgentRun
from sessions_app.surfaces.agent_messages.signed_urls import Grant
from sessions_app.surfaces.agent_messages.views.base import AgentsView
from sessions_app.surfaces.base.bodies import BodyTooLarge
from tools_app import conf
from tools_app.storage import artifact_paths, artifacts
from tools_app.storage.artifacts import ArtifactView

_VISIBILITIES = ("user", "internal", "all")
_DISPOSITIONS = ("inline", "attachment")
_CONTENT = {"content": "text", "generation": "text"}
# A file may be a page: it is shown as one of no site, and runs nothing.
_SANDBOX = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'"


class ArtifactList(AgentsView):
    def get(self, request: Request, run_id: str) -> Response:
        run, visibility = self.agent_run(run_id), self.asked().get("visibility", "user")
        if visibility not in _VISIBILITIES:
            raise InvalidInput(f"visibility is one of {', '.join(_VISIBILITIES)}.", code="invalid_visibility")
        if visibility == "internal":
            return Response([])  # nothing of ours lies among a run's files
        return Response([file.path for file in artifacts.list_artifacts(run.session.id)])


class Artifact(AgentsView):
    """`?url=1`: an address to read it by; else its bytes. PUT: an address to write it by."""

    def get(self, request: Request, run_id: str, path: str) -> HttpResponse:
        run, asked = self.agent_run(run_id), self.asked()
        path = artifact_names.own_path(run.id, path)
        disposition, filename = _disposition(asked.get("disposition")), asked.get("filename", "")
        if asked.get("url", "") in ("1", "true"):
            view = artifacts.find_artifact(run.session.id, path)
            return Response(signed(request, run, view.path, disposition, filename))
        return send_file(*artifacts.read_artifact(run.session.id, path), disposition, filename)

    def put(self, request: Request, run_id: str, path: str) -> Response:
        run = self.agent_run(run_id)
        return Response(signed_for_upload(request, run, artifact_names.own_path(run.id, path)))


class ArtifactContent(AgentsView):
    """A text with its generation, which whoever changes it gives back: an outdated one is 409."""

    def get(self, request: Request, run_id: str, path: str) -> Response:
        run = self.agent_run(run_id)
        view, data = artifacts.read_artifact(run.session.id, artifact_names.own_path(run.id, path))
        return Response({"path": view.path, "content": _as_text(data), "generation": view.sha256})

    def put(self, request: Request, run_id: str, path: str) -> Response:
        run, told = self.agent_run(run_id), requests.checked(request.data, _CONTENT)
        if "content" not in told or not told.get("generation"):
            raise InvalidInput("content and generation are texts.", code="invalid_value")
        path = artifact_names.own_path(run.id, path)
        known = artifacts.find_artifact(run.session.id, path)
        view = artifacts.write_artifact(
            run.session.id,
            path,
            told["content"].encode(),
            run_id=None,
            agent_id="",
            media_type=known.media_type,
            expected_sha256=told["generation"],
        )
        details = {"path": view.path, "source": "user_edit", "generation": view.sha256}
        session_writes.post(run.session, message_types.update("", "artifact_updated", **details))
        return Response({"path": view.path, "generation": view.sha256})


class Blob(AgentsView):
    """The bytes, by an address that carries its own credential."""

    is_public = True

    def get(self, request: Request, token: str, name: str = "") -> HttpResponse:
        grant, session = _granted(token, "get")
        return send_file(*artifacts.read_artifact(session.id, grant.path), grant.disposition, grant.filename)

    def put(self, request: Request, token: str, name: str = "") -> Response:
        grant, session = _granted(token, "put")
        most, _ = conf.artifact_limits()
        data = request._request.read(most + 1)
        if len(data) > most:
            raise BodyTooLarge(f"The file has more than {most:,} bytes.")
        media_type = (request.content_type or "").partition(";")[0]
        view = artifacts.write_artifact(session.id, grant.path, data, run_id=None, agent_id="", media_type=media_type)
        return Response({"path": artifact_names.storage_path(session.id, view.path), "size": view.size_bytes})


class FileUrl(AgentsView):
    """`download-url` and `upload-url`: addresses of files by their path with the run's folder."""

    def post(self, request: Request, use: str) -> Response:
        body = requests.clean(requests.as_object(request.data))
        named = body.get("file" if use == "download-url" else "id") or body.get("name") or ""
        run_id, path = artifact_names.split_storage_path(named if isinstance(named, str) else "")
        if not path:
            raise NotFound("Files lie in the folders of agent runs: agents/<run>/<path>.", code="no_such_file")
        run = self.agent_run(run_id)
        if use == "upload-url":
            return Response(
                {
                    **signed_for_upload(request, run, path),
                    "id": named,
                    "mime_type": body.get("mime_type") or "application/octet-stream",
                }
            )
        disposition = _disposition(body.get("disposition"))
        view = artifacts.find_artifact(run.session.id, path)
        shown = signed(request, run, view.path, disposition, str(body.get("name") or ""))
        return Response({**shown, "id": named, "mime_type": view.media_type})


class FileList(AgentsView):
    """Paths of files that begin with `prefix`, which names a run's folder."""

    def get(self, request: Request) -> Response:
        prefix = self.asked().get("prefix", "").lstrip("/")
        run_id = prefix.removeprefix("agents/").partition("/")[0]
        run = self.agent_run(run_id)
        files = [artifact_names.storage_path(run.id, file.path) for file in artifacts.list_artifacts(run.session.id)]
        return Response({"files": [path for path in files if path.startswith(prefix)]})


def signed(request: Request, run: AgentRun, path: str, disposition: str, filename: str) -> dict[str, Any]:
    grant = Grant("get", run.id, path, run.session.owner_id or 0, disposition, filename[:200])
    return {"url": signed_urls.sign(_base_url(request), grant), "path": artifact_names.storage_path(run.id, path)}


def signed_for_upload(request: Request, run: AgentRun, path: str) -> dict[str, Any]:
    try:
        path = artifact_paths.checked(path)
    except artifact_paths.BadPathError as error:
        raise InvalidInput(str(error), code="bad_path") from None
    grant = Grant("put", run.id, path, run.session.owner_id or 0)
    return {"url": signed_urls.sign(_base_url(request), grant), "path": artifact_names.storage_path(run.id, path)}


def send_file(view: ArtifactView, data: bytes, disposition: str, filename: str) -> HttpResponse:
    response = HttpResponse(data, content_type=view.media_type)
    name = "".join(filter(str.isprintable, filename)) or view.path.rpartition("/")[2]
    response.headers["Content-Disposition"] = content_disposition_header(disposition == "attachment", name) or "inline"
    response.headers["Content-Security-Policy"] = _SANDBOX
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def _granted(token: str, use: str) -> tuple[Grant, Session]:
    grant = signed_urls.read(token)
    if grant.use != use:
        raise signed_urls.UrlRefused
    session = Session.objects.filter(
        pk=UUID(grant.session_id), owner_id=grant.owner_id, owner__is_active=True, deleted_at=None
    ).first()
    if session is None:
        raise signed_urls.UrlRefused
    return grant, session


def _disposition(said: Any) -> str:
    """As the client wants it, inline unless it says. Raises InvalidInput."""
    if said not in (*_DISPOSITIONS, "", None):
        raise InvalidInput("disposition is inline or attachment.", code="invalid_disposition")
    return said or "inline"


def _base_url(request: Request) -> str:
    return request.build_absolute_uri("/")[:-1]


def _as_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidInput("The file is not text.", code="not_text") from None
