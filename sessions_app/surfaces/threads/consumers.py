"""Routes of requests that wait or stream."""

from django.urls import path

from sessions_app.surfaces.threads.direct_answers import AgentAsk, AgentExtract
from sessions_app.surfaces.threads.event_stream import ThreadStream
from sessions_app.surfaces.threads.notification_socket import Notifications

routes = [
    path("v1/threads/<str:thread_id>/stream", ThreadStream.as_asgi()),
    path("v1/agent/ask", AgentAsk.as_asgi()),
    path("v1/agent/extract", AgentExtract.as_asgi()),
    path("v1/ws", Notifications.as_asgi()),
]
