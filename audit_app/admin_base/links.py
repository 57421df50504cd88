"""Links between admin pages of all apps. Each app registers its pages, so that no app imports a higher one."""

from collections.abc import Mapping
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from audit_app.kernel.safe_text import visible
from audit_app.kernel.shorten import shorten

_pages: dict[str, str] = {}


def register_page(noun: str, url_name: str) -> None:
    """Register the page of a kind of object.

    noun: `run`, ….
    url_name: its URL name, with the key as argument.
    """
    _pages[noun] = url_name


def find_url(noun: str, key: object) -> str | None:
    """Return the URL of an object's page, or None if no installed app has one."""
    return reverse(_pages[noun], args=[key]) if key and noun in _pages else None


def link(noun: str, key: object, text: object = "") -> SafeString | str:
    """Return a link to an object's page, or its text alone if there is no such page. A name has its key as a hint."""
    label = visible(text or key or "–")
    url = find_url(noun, key)
    hint = visible(key) if text else ""
    if url:
        return format_html('<a class="k-link" href="{}" title="{}">{}</a>', url, hint, label)
    return format_html('<span title="{}">{}</span>', hint, label) if hint else label


def session_link(session_id: object, key: str) -> SafeString | str:
    """Return a link to a session, short enough for a list."""
    return link("session", session_id, shorten(key, 32))


def list_link(url_name: str, query: Mapping[str, object], text: str) -> SafeString:
    """Return a link to a filtered admin list."""
    return format_html('<a class="k-link" href="{}?{}">{}</a>', reverse(url_name), urlencode(query), text)
