"""Template filters of the admin pages: plain text for untrusted content."""

from typing import Any

from django import template
from django.utils.safestring import SafeString

from audit_app.admin_base import columns, links, names
from audit_app.kernel import safe_text, shorten

register = template.Library()

register.filter("visible", safe_text.visible)
register.filter("pretty_json", safe_text.pretty_json)
register.filter("duration", safe_text.duration)
register.filter("clipped", safe_text.clipped)
register.filter("number", safe_text.number)
register.filter("time_ago", columns.time_ago)
register.filter("name_of", names.name_of)
register.filter("shortened", shorten.shorten)


@register.simple_tag
def object_link(noun: str, key: Any, label: str = "") -> SafeString | str:
    return links.link(noun, key, label)
