"""The page as an application of a phone or desktop: manifest, service worker, and the page while offline."""

import json

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.views.decorators.http import require_GET

OFFLINE_PAGE = "/offline"
_SHELL = (
    "css/base.css",
    "css/standalone.css",
    "fonts/inter-latin.woff2",
    "js/theme.js",
    "js/offline.js",
    "js/service-worker.js",
    "img/komand.svg",
)
_ICONS = (
    ("img/icon-192.png", "192x192", "any"),
    ("img/icon-512.png", "512x512", "any"),
    ("img/icon-maskable-512.png", "512x512", "maskable"),
)


@require_GET
def manifest(request: HttpRequest) -> HttpResponse:
    """Return the manifest of the application (W3C Web Application Manifest)."""
    icons = [
        {"src": static(name), "sizes": sizes, "type": "image/png", "purpose": purpose}
        for name, sizes, purpose in _ICONS
    ]
    described = {
        "id": "/",
        "name": "Komand",
        "short_name": "Komand",
        "description": "Talk to your agents, and decide what they ask.",
        "start_url": "/",
        "scope": "/",
        "display": "standalone",
        "background_color": "#faf9f6",
        "theme_color": "#0d6b60",
        "icons": icons,
        "shortcuts": [{"name": "Waiting for you", "url": "/chat/waiting"}, {"name": "New chat", "url": "/chat/new"}],
    }
    return JsonResponse(described, content_type="application/manifest+json")


@require_GET
def service_worker(request: HttpRequest) -> HttpResponse:
    """Return the service worker, with the addresses of the files that it keeps for the page while offline."""
    shown = {"shell": json.dumps([OFFLINE_PAGE, *map(static, _SHELL)]), "icon": static(_ICONS[0][0])}
    response = render(request, "chat/service_worker.js", shown, content_type="text/javascript")
    response.headers["Cache-Control"] = "no-cache"
    return response


@require_GET
def offline(request: HttpRequest) -> HttpResponse:
    """Return the page that the service worker shows while the server cannot be reached."""
    return render(request, "chat/offline.html")
