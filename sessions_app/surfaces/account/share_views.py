"""The page of the links by which a user shares chats."""

from uuid import UUID

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render

from sessions_app.chat_copies import share_links
from sessions_app.surfaces.base.pages import PageRequest, page

_PAGE = "/account/shared"


@page("GET")
def list_shares(request: PageRequest) -> HttpResponse:
    """Show the links that are not over."""
    return render(request, "account/shared.html", {"links": share_links.list_links(request.user)})


@page("POST")
def revoke(request: PageRequest, share_id: UUID) -> HttpResponse:
    """End a link."""
    share_links.revoke(request.user, share_id)
    return HttpResponseRedirect(_PAGE)
