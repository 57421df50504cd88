"""The page where users choose which of their browsers and phones are notified, and of what."""

from datetime import time
from typing import Any
from uuid import UUID

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render

from audit_app.kernel.errors import AppError, InvalidInput
from audit_app.kernel.safe_text import visible
from sessions_app.push import browsers, notices, vapid
from sessions_app.push.browsers import NewSubscription, Preferences
from sessions_app.surfaces.base.http_errors import http_error_of
from sessions_app.surfaces.base.pages import PageRequest, page

_PAGE = "/account/notifications"


@page("GET")
def list_browsers(request: PageRequest) -> HttpResponse:
    """Show the browsers of the user."""
    return _show(request, said=_DONE.get(request.GET.get("said", ""), ""))


@page("POST")
def add(request: PageRequest) -> HttpResponse:
    """Add the browser of this login."""
    given = {name: request.POST.get(name, "") for name in ("endpoint", "p256dh", "auth")}
    if not any(given.values()):
        return _show(request, 400, problem="Notifications need a browser with scripts.")
    try:
        new = NewSubscription(**given)
        session_key = request.session.session_key or ""
        browsers.subscribe(request.user, session_key, new, request.POST.get("time_zone", ""))
    except AppError as error:
        return _show(request, http_error_of(error).status, problem=error.message)
    return HttpResponseRedirect(f"{_PAGE}?said=added")


@page("POST")
def change(request: PageRequest, browser_id: UUID) -> HttpResponse:
    """Change what a browser is notified of."""
    wants = request.POST.getlist("wants")
    try:
        preferences = Preferences(
            approvals="approvals" in wants,
            questions="questions" in wants,
            answers="answers" in wants,
            quiet_from=_time(request.POST.get("quiet_from", "")),
            quiet_until=_time(request.POST.get("quiet_until", "")),
        )
        browsers.change(request.user, browser_id, preferences)
    except InvalidInput as error:
        return _show(request, http_error_of(error).status, problem=error.message)
    return HttpResponseRedirect(f"{_PAGE}?said=changed")


@page("POST")
def send_test(request: PageRequest, browser_id: UUID) -> HttpResponse:
    """Send a notification to a browser."""
    notices.send_test(request.user, browser_id)
    return HttpResponseRedirect(f"{_PAGE}?said=sent")


@page("POST")
def remove(request: PageRequest, browser_id: UUID) -> HttpResponse:
    """Notify a browser no longer."""
    browsers.remove(request.user, browser_id)
    return HttpResponseRedirect(f"{_PAGE}?said=removed")


_DONE = {
    "added": "This browser is notified now. Send a test, then lock the phone or close the page.",
    "changed": "Saved.",
    "sent": "A test is on its way. A page that you look at shows no notification: switch to another window.",
    "removed": "The browser is not notified any more.",
}


def _time(text: str) -> time | None:
    try:
        return time.fromisoformat(text) if text else None
    except ValueError:
        raise InvalidInput("Enter the quiet hours as hours and minutes, such as 22:00.", code="quiet_hours") from None


def _show(request: PageRequest, status: int = 200, **shown: Any) -> HttpResponse:
    rows = browsers.list_of(request.user)
    listed = [{"row": row, "device": visible(row.device)} for row in rows]
    shown |= {"browsers": listed, "key": vapid.public_key()}
    return render(request, "account/notifications.html", shown, status=status)
