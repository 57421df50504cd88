"""The web chat for visitors of other sites, under /webchat. Users' own sessions are at /api/webchat, a part of REST."""

from sessions_app.surfaces.base.surface import Surface
from sessions_app.surfaces.webchat.errors import error_body

SURFACE = Surface(
    name="webchat",
    prefixes=("/webchat/",),
    error_body=error_body,
    urlconf="sessions_app.surfaces.webchat.urls",
    consumers="sessions_app.surfaces.webchat.consumers",
    openapi="sessions_app.surfaces.webchat.openapi",
    upload_paths=(r"/webchat/[^/]+/uploads(\?|$)",),
)
