"""The pages of the web chat: the chat itself, which sites show in a frame, its script for sites, and a test page."""

import gzip
from collections.abc import Callable
from functools import cache, wraps
from hashlib import sha256
from pathlib import Path
from typing import cast

from django.conf import settings
from django.contrib.staticfiles import finders
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.http import require_GET

from audit_app.kernel.errors import AppError, NotFound
from sessions_app.platforms.adapters.web.visitor_tokens import ANONYMOUS
from sessions_app.platforms.small_pictures import read_picture
from sessions_app.surfaces.base.pages import PageRequest, page, refused
from sessions_app.surfaces.webchat.commands import find_secret
from sessions_app.surfaces.webchat.component_script import script
from sessions_app.surfaces.webchat.visitor_admission import Site, get_site, origin_of
from tools_app import conf

View = Callable[[HttpRequest, str], HttpResponse]

# By the secret with which a hash was made.
_PROVEN = {
    "identity_secret": "The hash is right: it names this user.",
    "identity_secret_before": "The hash is of the secret before, and counts until you remove that one.",
    "": "The hash is not of this user. It must be the hex HMAC-SHA256 of the id with the identity_secret.",
}
_JWT = "This is a JWT, which the chat does not take. Compute the hex HMAC-SHA256 of the id with the identity_secret."
_ANONYMOUS = f"Ids of users do not begin with {ANONYMOUS}: such are those of visitors whom your site does not name."
_SCRIPT = "js/webchat/embed.js"
_SCRIPT_SECONDS = 300
# The limit of a file holds for the form around it too.
_FORM_BYTES = 2000


def _refusals_as_pages(view: View) -> View:
    """Answer errors by the error page, such as 404 for an account that does not exist."""

    @wraps(view)
    def answered(request: HttpRequest, account: str) -> HttpResponse:
        try:
            return view(request, account)
        except AppError as error:
            return refused(cast(PageRequest, request), error)

    return answered


@require_GET
@xframe_options_exempt
@_refusals_as_pages
def widget(request: HttpRequest, account: str) -> HttpResponse:
    """Return the page of the chat. Pages of the account's origins, and our own test page, may frame it."""
    site = get_site(account)
    config = site.adapter.account.config
    shown = {
        "account": account,
        "title": config.get("title") or "Chat",
        "greeting": config.get("greeting") or "",
        "starters": "\n".join(map(str, config.get("starters") or ())),
        "theme": config.get("theme") or "",
        "accent": config.get("accent") or "",
        "agent_name": config.get("agent_name") or "",
        "has_picture": bool(config.get("picture")),
        "sends_transcripts": bool(config.get("transcripts_from")),
        "largest_file": max(1, conf.artifact_limits()[0] - _FORM_BYTES),
    }
    response = render(request, "webchat/widget.html", shown)
    frames = ["'self'", *sorted(site.adapter.origins)]
    response._csp_replace = {"frame-ancestors": frames}  # type: ignore[attr-defined] # as csp's own decorator
    response.headers["Cache-Control"] = "no-store"
    # For sites that ask everything on their pages for these.
    response.headers["Cross-Origin-Embedder-Policy"] = "require-corp"
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    return response


@require_GET
@_refusals_as_pages
def embed(request: HttpRequest, account: str) -> HttpResponse:
    """Return the script that a site includes: a button that opens the chat in a frame."""
    get_site(account)
    path = finders.find(_SCRIPT)
    if not isinstance(path, str):
        raise FileNotFoundError(_SCRIPT)
    response = HttpResponse(Path(path).read_bytes(), content_type="text/javascript; charset=utf-8")
    response.headers["Cache-Control"] = f"public, max-age={_SCRIPT_SECONDS}"
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"  # for sites that ask every file for it
    return response


@require_GET
@_refusals_as_pages
def picture(request: HttpRequest, account: str) -> HttpResponse:
    """Return the picture of the account's agent, which pages of any site may show."""
    found = read_picture(get_site(account).adapter.account.config.get("picture"))
    if found is None:
        raise NotFound("This chat has no picture.")
    media_type, data = found
    response = HttpResponse(data, content_type=media_type)
    response.headers["Cache-Control"] = f"public, max-age={_SCRIPT_SECONDS}"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    response.headers["Access-Control-Allow-Origin"] = "*"  # the component fetches it, and draws it
    return response


@require_GET
def component(request: HttpRequest) -> HttpResponse:
    """Return the script of `<komand-chat>`, which sites include. It is the same for all of them."""
    content, tag = _component()
    is_known = request.headers.get("If-None-Match") == tag
    response: HttpResponse = HttpResponseNotModified() if is_known else HttpResponse(content)
    if not is_known:
        response.headers["Content-Type"] = "text/javascript; charset=utf-8"
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            response.headers["Content-Encoding"] = "gzip"
        else:
            response.content = gzip.decompress(content)
    response.headers["ETag"] = tag
    response.headers["Cache-Control"] = f"public, max-age={_SCRIPT_SECONDS}"
    response.headers["Vary"] = "Accept-Encoding"
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    return response


@cache
def _component() -> tuple[bytes, str]:
    """Return the compressed script and its tag."""
    content = script()
    return gzip.compress(content, mtime=0), f'W/"{sha256(content).hexdigest()[:16]}"'


@page("GET", "POST")
def test_page(request: PageRequest, account: str) -> HttpResponse:
    """Return a page with the chat, as a site would show it, and the answer to whether a hash names a user."""
    site = get_site(account)
    origin = settings.KOMAND_PUBLIC_URL or origin_of(request)
    script = origin + reverse("webchat:embed", args=[account])
    user_id, given = (request.POST.get(name, "").strip() for name in ("user_id", "user_hash"))
    proven = _verdict_on(site, user_id, given) if user_id else ""
    shown = {"account": account, "script": script, "user_id": user_id, "user_hash": given, "proven": proven}
    return render(request, "webchat/test_page.html", shown)


def _verdict_on(site: Site, user_id: str, given: str) -> str:
    """Return whether a hash names a user, and what to do if not, in words for the administrator."""
    if user_id.startswith(ANONYMOUS):
        return _ANONYMOUS
    return _JWT if given.startswith("eyJ") else _PROVEN[find_secret(site, user_id, given)]
