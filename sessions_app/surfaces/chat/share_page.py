"""The page of a chat that is shared by a link: for anybody who has the link, without scripts and without a login."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Concatenate, ParamSpec
from uuid import UUID

from csp.constants import NONE, SELF
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import content_disposition_header
from django.utils.safestring import SafeString
from django.views.decorators.http import require_GET

from audit_app.kernel.errors import AppError
from sessions_app.chat_copies import share_links
from sessions_app.chat_copies.chat_copy import CopiedCall, CopiedFile, CopiedText, CopiedWorkstream, Part
from sessions_app.chat_copies.share_links import LinkEnded
from sessions_app.identity import client_ip, rate_limits
from sessions_app.surfaces.base import markdown
from sessions_app.surfaces.base.http_errors import http_error_of
from sessions_app.surfaces.chat import labels
from sessions_app.surfaces.chat.collapse import pretty

P = ParamSpec("P")
_View = Callable[Concatenate[HttpRequest, P], HttpResponse]

_POLICY = {
    "default-src": [NONE],
    "style-src": [SELF],
    "font-src": [SELF],
    "img-src": [SELF, "data:"],
    "form-action": [NONE],
}
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex, nofollow",
    "X-Content-Type-Options": "nosniff",
}
_ENDED = 410
_RENDERED = 500  # texts of the links that were opened last


def _public(view: _View[P]) -> _View[P]:
    """Answer anybody, with a limit for each address, with the headers of a shared chat and errors as a page."""

    @require_GET
    @wraps(view)
    def answered(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        try:
            rate_limits.take(rate_limits.api_limit(), f"address:{client_ip.counted(request.META['REMOTE_ADDR'])}")
            response = view(request, *args, **kwargs)
        except AppError as error:
            status = _ENDED if isinstance(error, LinkEnded) else http_error_of(error).status
            response = render(request, "chat/share_error.html", {"message": error.message}, status=status)
        response._csp_replace = _POLICY  # type: ignore[attr-defined] # as csp's own decorator
        for name, value in _HEADERS.items():
            response.headers[name] = value
        return response

    return answered


@_public
def shared(request: HttpRequest, token: str) -> HttpResponse:
    """Show the chat of a link."""
    row = share_links.find(token)
    copy = share_links.read(row)
    turns = [{"turn": turn, "parts": [_shown(part) for part in turn.parts]} for turn in copy.turns]
    files = [_file(file, token if row.has_files else "") for file in copy.files]
    return render(request, "chat/share.html", {"copy": copy, "link": row, "turns": turns, "files": files})


@_public
def shared_file(request: HttpRequest, token: str, file_id: UUID) -> HttpResponse:
    """Return a file of the chat as an attachment, if the link offers files."""
    file, content = share_links.read_file(share_links.find(token), file_id)
    name = file.path.rpartition("/")[2]
    disposition = content_disposition_header(True, name) or "attachment"
    headers = {"Content-Disposition": disposition}
    return HttpResponse(content, content_type="application/octet-stream", headers=headers)


def _shown(part: Part) -> dict[str, Any]:
    shown: dict[str, Any] = {"kind": part.kind, "part": part}
    if isinstance(part, CopiedText):
        shown["html"] = _rendered(part.text)
    elif isinstance(part, CopiedWorkstream):
        shown["html"] = _rendered(part.result) if part.result else ""
    elif isinstance(part, CopiedCall):
        shown |= {
            "state": labels.CALL_STATES[part.state],
            "arguments": pretty(part.arguments),
            "output": None if part.output is None else pretty(part.output),
        }
    return shown


def _file(file: CopiedFile, token: str) -> dict[str, str]:
    """Return a file as the page lists it. token: empty if its content is not shared."""
    return {
        "path": file.path,
        "size": labels.size(file.size_bytes),
        "url": f"/share/{token}/files/{file.id}" if token else "",
    }


@lru_cache(maxsize=_RENDERED)
def _rendered(text: str) -> SafeString:
    return markdown.render(text)
