"""WhatsApp's formatting: `*bold*`, `_italic_`, `~strike~`, code and quotes. It has no escapes. Pure."""

from collections.abc import Mapping
from typing import ClassVar

from sessions_app.platforms.rendering.signed_text import SignedText


class WhatsAppText(SignedText):
    """The text format of WhatsApp. A zero-width space keeps a sign from beginning a format."""

    format_signs: ClassVar[Mapping[str, str]] = {"bold": "*", "italic": "_", "strike": "~", "code": "`"}
    literal = "\\g<sign>\u200b"
