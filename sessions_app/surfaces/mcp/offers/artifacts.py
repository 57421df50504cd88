"""The files of the caller's sessions as resources."""

from uuid import UUID

from audit_app.kernel.errors import InvalidInput
from sessions_app import selectors
from sessions_app.access import access_artifact
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.mcp.registry import Content, Page, Resource, ResourceKind, resources, sliced
from tools_app.storage import artifacts
from tools_app.storage.artifacts import ArtifactView

_MOST_BYTES = 4 * 1024 * 1024
_TEXT = ("text/", "application/json", "application/xml", "application/yaml")


def _list_page(principal: Principal, cursor: str) -> Page:
    def rows(offset: int, limit: int) -> tuple[ArtifactView, ...]:
        return artifacts.list_artifacts_of(selectors.session_ids_of(principal.user), offset=offset, limit=limit)

    found, following = sliced(rows, cursor)
    return Page([_resource(row) for row in found], following)


def _resource(row: ArtifactView) -> Resource:
    media_type, size, changed_at = row.media_type, row.size_bytes, row.updated_at
    about = f"File of the session {row.session_id}."
    return Resource({"artifact": str(row.id)}, row.path, about, media_type, size, changed_at, row.origins)


def _read(principal: Principal, artifact: str) -> Content:
    view = access_artifact(principal.user, artifact)
    if view.size_bytes > _MOST_BYTES:
        raise InvalidInput(f"The file has more than {_MOST_BYTES:,} bytes. Download it over REST.", code="too_large")
    view, data = artifacts.read_artifact(view.session_id, view.path)
    if view.media_type.startswith(_TEXT):
        return Content(data.decode(errors="replace"), view.media_type, view.origins)
    return Content(data, view.media_type, view.origins)


def _find_session(principal: Principal, artifact: str) -> UUID:
    return access_artifact(principal.user, artifact).session_id


resources.register(
    ResourceKind(
        "artifacts",
        "komand://artifacts/{artifact}",
        "File",
        "A file of one of your sessions, as its agent or its user stored it.",
        "application/octet-stream",
        _list_page,
        _read,
        _find_session,
    )
)
