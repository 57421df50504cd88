"""Routes of views, beside those of consumers.py."""

from django.urls import path

from sessions_app.surfaces.mcp.surface import METADATA_PATH
from sessions_app.surfaces.mcp.views import ResourceMetadata

app_name = "mcp"

_METADATA = METADATA_PATH.removeprefix("/")
urlpatterns = [
    path(_METADATA, ResourceMetadata.as_view(), name="resource-metadata-of-origin"),
    path(f"{_METADATA}/mcp", ResourceMetadata.as_view(), name="resource-metadata"),
]
