"""The chat page and its WebSocket."""

from sessions_app.surfaces.base.surface import Surface

SURFACE = Surface(
    name="chat",
    urlconf="sessions_app.surfaces.chat.urls",
    consumers="sessions_app.surfaces.chat.consumers",
    page_view="sessions_app.surfaces.chat.consumers.PageFrames",
)
