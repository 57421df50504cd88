"""A session as the chat page shows it, for clients of other surfaces: rendered frames instead of events.

The surface with a `page_view` renders; `docs/decisions/0036-the-component-gets-the-frames-of-the-page.md` says why.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol
from uuid import UUID

from django.utils.module_loading import import_string

from sessions_app.identity.principal import Principal
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.models import Feedback
from sessions_app.surfaces.base.surface import surfaces


class PageView(Protocol):
    """The view of one caller on one session."""

    async def frames_of(self, batch: Sequence[SessionEvent]) -> list[dict[str, Any]]:
        """Return the frames for a batch of events, in order."""

    async def frames_of_thread(self, before: int | None = None) -> list[dict[str, Any]]:
        """Return the frames that show the newest turns as they are now, or those before that ordinal."""

    def frames_of_rating(self, run_id: UUID, rating: Feedback | None, *, asks: bool) -> list[dict[str, Any]]:
        """Return the frames that show the caller's rating of an answer. asks: with the form for a comment."""


def open_page_view(find_principal: Callable[[], Principal], session_id: UUID) -> PageView:
    """Return the view of a caller on a session. Synchronous. Raises NotFound.

    find_principal: returns the caller as known now.
    """
    path = next(surface.page_view for surface in surfaces if surface.page_view)
    view: PageView = import_string(path).open(find_principal, session_id)
    return view
