"""Views by which a user takes a chat along: export, links to share, forks; and the marks of the list of chats."""

from uuid import UUID

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.http import content_disposition_header
from django_htmx.http import HttpResponseClientRedirect

from audit_app.kernel.errors import InvalidInput
from audit_app.rights import holds
from sessions_app.access import access_run, access_session
from sessions_app.chat_copies import copy_reader, exports, share_links
from sessions_app.chat_copies.share_links import CreatedLink
from sessions_app.conversation import forks, list_marks
from sessions_app.identity import rate_limits
from sessions_app.models import Session
from sessions_app.rights import SHARE_CHATS
from sessions_app.services import WEB_CHAT
from sessions_app.surfaces.base.addresses import origin_for
from sessions_app.surfaces.base.pages import PageRequest, page
from sessions_app.surfaces.chat.sidebar import count_asking, read_days

_NAMES = {"markdown": "Markdown", "json": "JSON"}


@page("GET")
def leave(request: PageRequest, session_id: UUID) -> HttpResponse:
    """Return a fragment with the ways in which a chat leaves the page. Without scripts it is a page."""
    return _show(request, access_session(request.user, session_id))


@page("GET")
def export(request: PageRequest, session_id: UUID) -> HttpResponse:
    """Return the chat as a file."""
    session = access_session(request.user, session_id)
    rate_limits.take(rate_limits.api_limit(), f"user:{request.user.pk}")
    wanted = request.GET.get("format", "markdown")
    if wanted not in exports.FORMATS:
        raise InvalidInput(f"`format` must be one of: {', '.join(exports.FORMATS)}.")
    copy = copy_reader.read_copy(session)
    copy = copy if request.GET.get("calls") else copy.without_calls()
    response = HttpResponse(exports.write(copy, wanted), content_type=exports.MEDIA_TYPES[wanted])
    name = exports.filename_of(copy, wanted)
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    return response


@page("POST")
def share(request: PageRequest, session_id: UUID) -> HttpResponse:
    """Create a link to the chat, and show it once."""
    session = access_session(request.user, session_id)
    given = request.POST
    try:
        days = int(given.get("days", share_links.DEFAULT_DAYS))
    except ValueError:
        raise InvalidInput("`days` must be a number.") from None
    created = share_links.create(
        session, request.user, days=days, has_calls=bool(given.get("calls")), has_files=bool(given.get("files"))
    )
    return _show(request, session, created)


@page("POST")
def revoke(request: PageRequest, share_id: UUID) -> HttpResponse:
    """Revoke a link of the user. Return the links of its chat, or redirect to the account."""
    row = share_links.revoke(request.user, share_id)
    if not request.htmx:
        return HttpResponseRedirect("/account/shared")
    return _show(request, access_session(request.user, row.session_id))


@page("POST")
def fork(request: PageRequest, run_id: UUID) -> HttpResponse:
    """Create a chat with the conversation up to this run, and go there."""
    session = access_session(request.user, access_run(request.user, run_id).conversation_id)
    rate_limits.take(rate_limits.chat_limit(), f"user:{request.user.pk}")
    target = f"/chat/{forks.fork_session(session, run_id, owner=request.user, channel=WEB_CHAT).pk}"
    return HttpResponseClientRedirect(target) if request.htmx else HttpResponseRedirect(target)


@page("POST")
def mark(request: PageRequest, session_id: UUID) -> HttpResponse:
    """Pin or unpin a chat, or mark it as read or unread. Return the list of chats; nothing for a page that leaves."""
    session = access_session(request.user, session_id)
    match request.POST.get("as"):
        case "pinned" | "unpinned" as wanted:
            list_marks.pin_session(request.user, session, is_pinned=wanted == "pinned")
        case "read" | "unread" as wanted:
            list_marks.mark_session(session, is_read=wanted == "read")
        case _:
            raise InvalidInput("`as` must be pinned, unpinned, read or unread.")
    if not request.htmx:
        return HttpResponse(status=204)
    days = read_days(request, current=_current(request))
    return render(request, "chat/_sessions.html", {"days": days, "asking": count_asking(days), "query": ""})


def _current(request: PageRequest) -> UUID | None:
    """Return the session that the page shows."""
    try:
        return UUID((request.htmx.current_url_abs_path or "").partition("?")[0].rpartition("/")[2])
    except ValueError:
        return None


def _show(request: PageRequest, session: Session, created: CreatedLink | None = None) -> HttpResponse:
    shown = {
        "session": session,
        "formats": [(name, _NAMES[name]) for name in exports.FORMATS],
        "may_share": holds(request.user, SHARE_CHATS),
        "days": share_links.DAYS,
        "default_days": share_links.DEFAULT_DAYS,
        "links": share_links.list_links(request.user, session),
        "address": f"{origin_for(request)}/share/{created.token}" if created else "",
    }
    return render(request, "chat/_leave.html", shown)
