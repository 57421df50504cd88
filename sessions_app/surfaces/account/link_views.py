"""The page where users link their channel identities to their account."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.cache import never_cache

from audit_app import fresh_login
from audit_app.kernel.errors import AppError
from audit_app.kernel.safe_text import visible
from sessions_app.identity import sender_links
from sessions_app.models import SenderLink
from sessions_app.surfaces.base.http_errors import http_error_of
from sessions_app.surfaces.base.pages import PageRequest, page

_PAGE = "/account/links"


@page("GET")
def list_links(request: PageRequest) -> HttpResponse:
    """Show the linked senders, and the sender who waits for the number."""
    return _show(request)


@never_cache
@page("POST")
def make_code(request: PageRequest) -> HttpResponse:
    """Create a code and show it once, with the form for the number that the chat replies with."""
    fresh_login.require(request, fresh_login.LINK_CHANNEL)
    return _show(request, made=sender_links.make_code(request.user), minutes=sender_links.MINUTES)


@page("POST")
def confirm(request: PageRequest) -> HttpResponse:
    """Link the sender whose chat shows the number."""
    try:
        sender_links.confirm(request.user, request.POST.get("number", ""))
    except AppError as error:
        return _show(request, status=http_error_of(error).status, problem=error.message)
    return HttpResponseRedirect(_PAGE)


@page("POST")
def unlink(request: PageRequest, link_id: UUID) -> HttpResponse:
    """End a link, or refuse the sender who waits."""
    sender_links.unlink(request.user, link_id)
    return HttpResponseRedirect(_PAGE)


def _show(request: PageRequest, status: int = 200, **shown: Any) -> HttpResponse:
    links = list(map(_shown, sender_links.list_links(request.user)))
    waiting = next((link for link in links if link["row"].linked_at is None), None)
    linked = [link for link in links if link is not waiting]
    shown |= {"links": linked, "waiting": waiting, "asks_number": waiting or "made" in shown}
    return render(request, "account/links.html", shown, status=status)


def _shown(row: SenderLink) -> dict[str, Any]:
    return {"row": row, "name": visible(row.sender_name or row.sender_id), "sender_id": visible(row.sender_id)}
