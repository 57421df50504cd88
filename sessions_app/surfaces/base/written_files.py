"""Files that an agent has written in a run, as clients of an answer see them."""

from typing import Any
from uuid import UUID

from rest_framework.serializers import CharField, IntegerField, UUIDField

from sessions_app.surfaces.base.serializers import ObjectSerializer
from tools_app.storage import artifacts


class WrittenFileOut(ObjectSerializer):
    id = UUIDField()
    filename = CharField()
    mime_type = CharField(source="media_type")
    size_bytes = IntegerField()
    url = CharField(help_text="Path of its content on this server.")


def written_files(session_id: UUID, run_id: UUID) -> list[dict[str, Any]]:
    """Return the files that the run has written, by path. One statement."""
    return [
        WrittenFileOut.of(view, filename=view.path.rpartition("/")[2], url=f"/api/artifacts/{view.id}")
        for view in artifacts.list_artifacts(session_id)
        if view.run_id == run_id
    ]
