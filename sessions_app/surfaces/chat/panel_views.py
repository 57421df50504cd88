"""The panel that shows one file beside the chat: its fragment, the frames of pages and PDF, contents, the archive.

A frame with a page that an agent wrote has an opaque origin: the answer forbids it everything but its own inline
scripts and styles.
"""

from pathlib import PurePosixPath
from uuid import UUID

from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from audit_app.kernel.errors import NotFound
from sessions_app import selectors
from sessions_app.access import access_artifact, access_session
from sessions_app.surfaces.base.downloads import download
from sessions_app.surfaces.base.pages import PageRequest, page
from sessions_app.surfaces.chat import file_previews, labels
from sessions_app.surfaces.chat.file_archive import entries_of, stream_archive
from sessions_app.surfaces.chat.file_previews import File
from sessions_app.surfaces.chat.session_files import archive_path, names_of_children, shown_folder
from tools_app.storage import artifact_versions, artifacts
from tools_app.storage.artifact_versions import Version
from tools_app.storage.artifacts import ArtifactView

# Scripts run in an opaque origin, and reach no host: neither this one nor another.
PAGE_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; media-src data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
# The frame that draws diagrams: as the others, with the scripts of this host.
_DIAGRAM_POLICY = PAGE_POLICY.replace("script-src 'unsafe-inline'", "script-src 'self'")
# Viewers of PDF are a part of the browser, and do not work in a sandbox.
_PDF_POLICY = "default-src 'none'; style-src 'unsafe-inline'; object-src 'self'; frame-ancestors 'self'"
_FRAME_HEADERS = {
    "X-Frame-Options": "SAMEORIGIN",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-DNS-Prefetch-Control": "off",
}


@page("GET")
def file(request: PageRequest, artifact_id: UUID) -> HttpResponse:
    """Return the content of the panel: a file, or the `version` of it that a call has written."""
    return _panel(request, access_artifact(request.user, artifact_id))


@page("GET")
def file_of_path(request: PageRequest, session_id: UUID) -> HttpResponse:
    """Return the content of the panel for the session's file of a `path`."""
    session = access_session(request.user, session_id)
    return _panel(request, artifacts.find_artifact(session.id, request.GET.get("path", "")))


@page("GET")
def content(request: PageRequest, artifact_id: UUID) -> HttpResponse:
    """Return the content of a file or of a `version` as an attachment."""
    shown = _read(request, access_artifact(request.user, artifact_id))
    return download(shown.data, shown.media_type, shown.name)


@page("GET")
def frame(request: PageRequest, artifact_id: UUID) -> HttpResponse:
    """Return a page or a PDF for a frame of the panel, isolated from this origin.

    Anywhere else than in a frame it is an attachment: outside of one, a page could open other addresses.
    """
    shown = _read(request, access_artifact(request.user, artifact_id))
    media_type = file_previews.frame_type(shown)
    if not media_type or request.headers.get("Sec-Fetch-Dest", "iframe") not in ("iframe", "embed", "object"):
        return download(shown.data, shown.media_type, shown.name)
    is_pdf = media_type == "application/pdf"
    headers = {**_FRAME_HEADERS, "Content-Security-Policy": _PDF_POLICY if is_pdf else PAGE_POLICY}
    return HttpResponse(
        shown.data, content_type=media_type if is_pdf else f"{media_type}; charset=utf-8", headers=headers
    )


@page("GET")
def diagram(request: PageRequest) -> HttpResponse:
    """Return the page of the frame that draws a diagram, which the chat page sends to it. It has an opaque origin."""
    response = render(request, "chat/diagram.html")
    for name, value in {**_FRAME_HEADERS, "Content-Security-Policy": _DIAGRAM_POLICY}.items():
        response.headers[name] = value
    response.headers["Cache-Control"] = "private, max-age=300"
    return response


@page("GET")
def archive(request: PageRequest, session_id: UUID) -> HttpResponseBase:
    """Return all files of a session as a ZIP archive. They have the size that a session may have, at most."""
    session = access_session(request.user, session_id)
    rows = artifacts.list_artifacts(session.id)
    if not rows:
        raise NotFound("This chat has no files.")
    names = names_of_children(session.id, rows)
    entries = entries_of([(archive_path(row.path, names), row) for row in rows])
    headers = {"Content-Disposition": 'attachment; filename="files.zip"', "X-Content-Type-Options": "nosniff"}
    return StreamingHttpResponse(stream_archive(entries), content_type="application/zip", headers=headers)


def _panel(request: PageRequest, artifact: ArtifactView) -> HttpResponse:
    shown, version, as_source = _read(request, artifact), request.GET.get("version", ""), "source" in request.GET
    context = {
        "artifact": artifact,
        "name": shown.name,
        "folder": shown_folder(artifact.path, names_of_children(artifact.session_id, [artifact])),
        "size": labels.size(len(shown.data)),
        "url": f"/chat/files/{artifact.id}",
        "query": f"version={version}" if version else "",
        "version": version,
        "versions": _versions(artifact),
        "preview": file_previews.preview_of(shown, as_source=as_source),
        "as_source": as_source,
    }
    return render(request, "chat/_file.html", context)


def _versions(artifact: ArtifactView) -> list[tuple[str, str]]:
    """Return the ids and labels of the versions, the present one first; none if there is no other."""
    earlier, now = _earlier(artifact), timezone.now()
    times = [("", len(earlier) + 1, artifact.updated_at)]
    times += [(str(one.call_id), one.number, one.written_at) for one in earlier]
    return [(key, f"Version {number} · {labels.time_ago(at, now)}") for key, number, at in times] if earlier else []


def _read(request: PageRequest, artifact: ArtifactView) -> File:
    """Return the content that the request names. Raises NotFound for a version that there is not, or no longer."""
    name = PurePosixPath(artifact.path).name
    if not (wanted := request.GET.get("version", "")):
        artifact, data = artifacts.read_artifact(artifact.session_id, artifact.path)
        return File(name, artifact.media_type, data)
    version = next((one for one in _earlier(artifact) if str(one.call_id) == wanted), None)
    if version is None:
        raise NotFound("There is no such version of the file.")
    return File(name, artifact.media_type, artifact_versions.read_version(version))


def _earlier(artifact: ArtifactView) -> tuple[Version, ...]:
    return artifact_versions.list_versions(artifact, selectors.run_ids_of(artifact.session_id))
