"""Work of the first request that a web process does before it reports that it is ready."""

import logging

from django.db import connection
from django.db.utils import Error as DatabaseError
from django.template.loader import get_template
from django.urls import get_resolver

from audit_app.kernel import compile_ahead

logger = logging.getLogger(__name__)

_TEMPLATES = ("chat/chat.html", "chat/_turn.html")


def warm_up() -> None:
    """Compile the statements that requests wait for, import the URLs, and load the templates of the chat page.

    Without the database, requests do it. Closes its connection.
    """
    try:
        compile_ahead.compile_all()
        get_resolver().reverse_dict  # noqa: B018 - imports all URLs
        for name in _TEMPLATES:
            get_template(name)
    except DatabaseError as error:
        logger.warning("the first request will be slow, as the database is away: %s", str(error).strip())
    finally:
        connection.close()
