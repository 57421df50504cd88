"""The pages of the login and of a user's own account."""

from sessions_app.surfaces.base.surface import Surface

SURFACE = Surface(name="account", urlconf="sessions_app.surfaces.account.urls")
