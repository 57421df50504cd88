"""The agent-message protocol: agent runs and workflows under /api/v1, tokens under /token."""

from sessions_app.surfaces.agent_messages.errors import error_body, error_headers
from sessions_app.surfaces.base.surface import Surface

SURFACE = Surface(
    name="agent_messages",
    prefixes=("/api/v1/", "/token/"),
    error_body=error_body,
    error_headers=error_headers,
    urlconf="sessions_app.surfaces.agent_messages.urls",
    consumers="sessions_app.surfaces.agent_messages.consumers",
    openapi="sessions_app.surfaces.agent_messages.openapi",
    cors_headers=("X-Api-Version", "X-Vertesia-App-Version"),
    upload_paths=("/api/v1/artifact-blobs/",),
)
