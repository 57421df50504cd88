"""The AG-UI protocol 1.0: agents for front ends, at /ag-ui."""

from typing import Any

from sessions_app.surfaces.base.http_errors import HttpError
from sessions_app.surfaces.base.surface import Surface


def error_body(error: HttpError) -> dict[str, Any]:
    """Return the body of an error before the first event: it has the fields of RUN_ERROR."""
    return {"message": error.message, "code": error.code}


SURFACE = Surface(
    name="ag_ui",
    title="AG-UI",
    prefixes=("/ag-ui/",),
    error_body=error_body,
    consumers="sessions_app.surfaces.ag_ui.consumers",
    openapi="sessions_app.surfaces.ag_ui.openapi",
    upload_paths=(r"/ag-ui/agents/[^/]+/?(\?|$)",),  # images and files are in the messages
)
