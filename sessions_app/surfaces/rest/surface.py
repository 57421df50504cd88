"""The REST API under /api."""

from sessions_app.surfaces.base.surface import Surface
from sessions_app.surfaces.rest.errors import error_body

SURFACE = Surface(
    name="rest",
    title="REST",
    prefixes=("/api/",),
    error_body=error_body,
    urlconf="sessions_app.surfaces.rest.urls",
    consumers="sessions_app.surfaces.rest.consumers",
    openapi="sessions_app.surfaces.rest.openapi",
    upload_paths=(r"/api/sessions/[^/?]+/artifacts(\?|$)", r"/api/attachments(\?|$)", r"/api/transcriptions(\?|$)"),
)
