"""Values as HTML of the admin pages."""

from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from audit_app.kernel.safe_text import pretty_json


def json_block(value: Any) -> SafeString:
    """Return a JSON value as a preformatted block."""
    return format_html('<pre class="k-json">{}</pre>', pretty_json(value))
