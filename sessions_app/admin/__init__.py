"""Admin pages of sessions, feedback, channels and their traffic, schedules, API keys, users and groups."""

from sessions_app.admin import (
    api_keys,
    channel_routes,
    channels,
    feedback,
    schedules,
    sessions,
    share_links,
    traffic,
    users,
)

__all__ = [
    "api_keys",
    "channel_routes",
    "channels",
    "feedback",
    "schedules",
    "sessions",
    "share_links",
    "traffic",
    "users",
]
