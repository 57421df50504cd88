"""Admin pages of sessions, feedback, channels and their traffic, API keys, users and groups."""

from sessions_app.admin import api_keys, channels, feedback, sessions, traffic, users

__all__ = ["api_keys", "channels", "feedback", "sessions", "traffic", "users"]
