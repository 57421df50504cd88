"""The operators' pages of sessions, API keys, users and groups."""

from sessions_app.admin import api_keys, sessions, users

__all__ = ["api_keys", "sessions", "users"]
