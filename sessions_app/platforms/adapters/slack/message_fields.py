"""Fields of a message for the Web API: its place, its buttons, and texts that notify nobody. Pure."""

from datetime import datetime
from typing import Any

from sessions_app.platforms.messages import Outgoing, Target

NO_TEXT = "…"  # of a draft with tool calls, where Slack does not stream


def place_of(target: Target) -> dict[str, Any]:
    return {"channel": target.chat.id, **({"thread_ts": target.chat.thread_id} if target.chat.thread_id else {})}


def response_url_of(target: Target, now: datetime) -> str:
    """Return the address at which one person can still be answered where the app is no member; empty if none.

    Slack takes five messages there, within 30 minutes of a slash command.
    """
    until = target.reference.get("respond_until")
    return str(target.reference["response_url"]) if until and now.timestamp() < until else ""


def blocks_of(message: Outgoing) -> list[dict[str, Any]]:
    """Return the text as a block of Markdown, and the buttons."""
    markdown = {"type": "markdown", "text": message.rendered.body or NO_TEXT}
    return [markdown, *([_buttons_of(message)] if message.buttons else [])]


def _buttons_of(message: Outgoing) -> dict[str, Any]:
    styles = {"success": "primary", "danger": "danger"}
    elements = [
        {
            "type": "button",
            "action_id": f"button-{number}",
            "text": {"type": "plain_text", "text": button.label[:75]},
            "value": button.action_id,
            **({"style": styles[button.style]} if button.style in styles else {}),
        }
        for number, button in enumerate(message.buttons)
    ]
    return {"type": "actions", "elements": elements}


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def without_mentions(markdown: str) -> str:
    """Return Markdown in which nothing notifies anybody: a zero-width space follows the sign of a reference."""
    return markdown.replace("<!", "<\u200b!").replace("<@", "<\u200b@").replace("<#", "<\u200b#")
