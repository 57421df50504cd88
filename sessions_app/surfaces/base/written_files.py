"""Files that an agent has written in a run, as clients of an answer see them."""

from typing import Any
from uuid import UUID

from rest_framework.serializers import CharField, IntegerField, UUIDField

from sessions_app.surfaces.base.serializers import ObjectSerializer
from tools_app.storage import artifacts
from tools_app.storage.artifacts import ArtifactView


class WrittenFileOut(ObjectSerializer):
    """Of the view of an artifact."""

    id = UUIDField()
    filename = CharField()
    mime_type = CharField(source="media_type")
    size_bytes = IntegerField()
    url = CharField(help_text="Path of its content on this server.")

    @classmethod
    def of(cls, subject: ArtifactView, **given: Any) -> dict[str, Any]:
        filename, url = subject.path.rpartition("/")[2], f"/api/artifacts/{subject.id}"
        return super().of(subject, filename=filename, url=url, **given)


def written_files(session_id: UUID, run_id: UUID) -> list[ArtifactView]:
    """Return the files that the run has written, by path. One statement."""
    return files_by_run(session_id).get(run_id, [])


def files_by_run(session_id: UUID) -> dict[UUID | None, list[ArtifactView]]:
    """Return the files of a session by the run that has written them, each list by path. One statement."""
    found: dict[UUID | None, list[ArtifactView]] = {}
    for view in artifacts.list_artifacts(session_id):
        found.setdefault(view.run_id, []).append(view)
    return found
