"""The reader's ratings of the answers on a page."""

from dataclasses import replace

from django.contrib.auth.models import User

from sessions_app import feedback
from sessions_app.surfaces.chat.queries import TurnPage


def with_ratings(page: TurnPage, user: User) -> TurnPage:
    """Return the page with the user's ratings of its answers. One query."""
    found = feedback.ratings_of(user, [view.run_id for view in page.turn_views if view.run_id])
    if not found:
        return page
    views = (replace(view, rating=found.get(view.run_id)) if view.run_id else view for view in page.turn_views)
    return replace(page, turn_views=tuple(views))
