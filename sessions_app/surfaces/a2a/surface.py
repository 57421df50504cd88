"""The Agent2Agent protocol 1.0: agents for other agents, at /a2a, as JSON-RPC and as HTTP+JSON."""

from sessions_app.surfaces.a2a.errors import error_body
from sessions_app.surfaces.base.surface import Surface

SURFACE = Surface(
    name="a2a",
    title="A2A",
    prefixes=("/a2a/",),
    error_body=error_body,
    consumers="sessions_app.surfaces.a2a.consumers",
    openapi="sessions_app.surfaces.a2a.openapi",
    cors_headers=("A2A-Version", "A2A-Extensions"),
    upload_paths=(r"/a2a/[^/?]+/?(\?|$)", r"/a2a/[^/?]+/message:(send|stream)/?(\?|$)"),  # files are in the messages
)
