"""Links between admin pages of all layers: each app says where its objects are shown, nobody imports a higher app."""

from collections.abc import Mapping
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from audit_app.kernel.safe_text import visible
from audit_app.kernel.shorten import shorten

_pages: dict[str, str] = {}


def register_page(noun: str, url_name: str) -> None:
    """noun: `run`, `session`, …; url_name: the admin's URL of one such object, taking its key."""
    _pages[noun] = url_name


def find_url(noun: str, key: object) -> str | None:
    """The page of one object, or None when no installed app shows such objects."""
    return reverse(_pages[noun], args=[key]) if key and noun in _pages else None


def link(noun: str, key: object, text: object = "") -> SafeString | str:
    """A link to an object's page; its text alone when there is no such page."""
    label = visible(text or key or "–")
    url = find_url(noun, key)
    return format_html('<a class="k-link" href="{}">{}</a>', url, label) if url else label


def session_link(session_id: object, key: str) -> SafeString | str:
    """A link to a session in a line of a list."""
    return link("session", session_id, shorten(key, 32))


def list_link(url_name: str, query: Mapping[str, object], text: str) -> SafeString:
    """A link to an admin list, filtered."""
    return format_html('<a class="k-link" href="{}?{}">{}</a>', reverse(url_name), urlencode(query), text)
