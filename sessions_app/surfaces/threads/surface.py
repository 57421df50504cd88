"""The Threads API: what lies under /v1 and is not the OpenAI protocol's."""

from sessions_app.surfaces.base.surface import Surface
from sessions_app.surfaces.threads.errors import error_body

SURFACE = Surface(
    name="threads",
    prefixes=(
        "/v1/threads",
        "/v1/system-jobs",
        "/v1/workflows",
        "/v1/diagnostics",
        "/v1/feedback",
        "/v1/api-keys",
        "/v1/auth/",
        "/v1/users/",
        "/v1/audit-events",
        "/v1/agent/",
        "/v1/ws",
        "/healthz",
    ),
    error_body=error_body,
    urlconf="sessions_app.surfaces.threads.urls",
    consumers="sessions_app.surfaces.threads.consumers",
    openapi="sessions_app.surfaces.threads.openapi",
)
