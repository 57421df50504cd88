"""Template filters of the admin pages: plain text for whatever people, models and tools wrote."""

from typing import Any

from django import template
from django.utils.safestring import SafeString

from audit_app.adminkit import links, text

register = template.Library()

register.filter("visible", text.visible)
register.filter("pretty_json", text.pretty_json)
register.filter("duration", text.duration)
register.filter("clipped", text.clipped)
register.filter("number", text.number)
register.filter("shortened", text.shortened)


@register.simple_tag
def object_link(noun: str, key: Any, label: str = "") -> SafeString | str:
    """A link to the admin page of an object of any app."""
    return links.link(noun, key, label)
