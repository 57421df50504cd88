"""The store of browser sessions: Django's, with a compiled statement for what every request of a page reads."""

from typing import Any

from django.contrib.sessions.backends import db
from django.utils import timezone

from sessions_app import hot_queries


class SessionStore(db.SessionStore):
    """A session of a browser. It has the name of Django's class, because that name salts the signature of the data."""

    def load(self) -> dict[str, Any]:
        """Return the data of the session, none if it does not exist or has expired."""
        row = hot_queries.find_browser_session().first(key=self.session_key, now=timezone.now())
        if row is None:
            self._session_key = None
            return {}
        return self.decode(row.session_data)
