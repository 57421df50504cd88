"""Static files: cached for a year under the address of their release, and compressed once in this process."""

import gzip
import re
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.cache import patch_vary_headers
from whitenoise.middleware import WhiteNoiseMiddleware

_FOREVER = "max-age=31536000, public, immutable"
_ADDRESS = re.compile(r"(?P<root>/static/)r-(?P<release>[0-9a-f]{12})/(?P<name>.*)", re.DOTALL)
_COMPRESSIBLE = re.compile(r"text/.*|image/svg\+xml|application/(?:json|javascript|manifest\+json)")
_LEAST_BYTES = 200
_IMPORT = re.compile(r'\bfrom "\./([\w-]+\.js)"')


@cache
def release() -> str:
    """Return a digest of all static files, which is the same in every process of this release."""
    digest = sha256()
    for finder in finders.get_finders():
        for name, storage in sorted(finder.list(None), key=lambda found: str(found[0])):
            digest.update(f"{name}\0".encode() + sha256(Path(storage.path(name)).read_bytes()).digest())
    return digest.hexdigest()[:12]


@cache
def imported_scripts(name: str) -> tuple[str, ...]:
    """Return the names of all modules that a script imports from its own folder, directly or not."""
    found: dict[str, None] = {}
    to_read = [name]
    while to_read:
        path = finders.find(script := to_read.pop())
        imports = _IMPORT.findall(Path(path).read_text()) if path else []
        for imported in (f"{script.rpartition('/')[0]}/{module}" for module in imports):
            if imported not in found:
                found[imported] = None
                to_read.append(imported)
    return tuple(sorted(found))


class ReleaseStorage(StaticFilesStorage):
    """Puts the release into the addresses of static files: relative addresses inside of the files stay valid."""

    def url(self, name: str | None) -> str:
        """Return the address of a file; the plain one while developing, so that a changed file is read again."""
        return super().url(name if settings.DEBUG else f"r-{release()}/{name}")


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc] # untyped
    """Serves static files from memory: under ASGI a file response would be read through a thread in pieces.

    The address of another release, which a page loaded during an update may have, leads to the present file.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        super().__init__(get_response)
        self._compressed: dict[tuple[str, str], bytes] = {}

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        address = _ADDRESS.fullmatch(request.path_info)
        path = address["root"] + address["name"] if address else request.path_info
        static_file = self.files.get(path)
        if static_file is None:
            response: HttpResponseBase = self.get_response(request)
            return response
        served = self._serve(path, static_file, request)
        if address and address["release"] == release():
            served.headers["Cache-Control"] = _FOREVER
        return served

    def _serve(self, path: str, static_file: Any, request: HttpRequest) -> HttpResponse:
        found = static_file.get_response(request.method, request.META)
        content = b""
        if found.file is not None:
            with found.file as file:
                content = file.read()
        response = HttpResponse(content, status=int(found.status))
        del response.headers["Content-Type"]
        for name, value in found.headers:
            response.headers[name] = value
        if len(content) >= _LEAST_BYTES and _COMPRESSIBLE.match(response.headers.get("Content-Type", "")):
            patch_vary_headers(response, ["Accept-Encoding"])
            if response.status_code == 200 and "gzip" in request.headers.get("Accept-Encoding", ""):
                self._compress(path, response)
        return response

    def _compress(self, path: str, response: HttpResponse) -> None:
        key = (path, response.headers.get("ETag", ""))
        if key not in self._compressed:
            self._compressed[key] = gzip.compress(response.content, mtime=0)
        response.content = self._compressed[key]
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Content-Length"] = str(len(response.content))


class CompressedPages(GZipMiddleware):
    """Compresses HTML pages.

    The length of a compressed page could reveal a secret in it (the BREACH attack). Django masks the CSRF token anew in
    each page, and adds a random number of bytes to each compressed response. JSON, which may carry tokens, stays as it
    is.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_page = response.headers.get("Content-Type", "").startswith("text/html")
        return super().process_response(request, response) if is_page else response
