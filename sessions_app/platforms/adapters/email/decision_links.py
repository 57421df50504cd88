"""Links by which a mail's reader decides an approval request: signed, for one decision, valid for a week. Pure.

Opening a link only shows a page, since programs that scan mails open all links; the button on the page decides.
"""

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from urllib.parse import parse_qs, quote

from sessions_app.platforms.messages import Button, ButtonPress, Chat, Target

_LIFETIME = timedelta(days=7)
_LONGEST = 4000


@dataclass(frozen=True)
class Decision:
    """A decision by a link.

    button: its action id.
    address, thread_id: of the chat.
    """

    id: str
    button: str
    label: str
    address: str
    thread_id: str
    reference: dict[str, str]

    def press(self) -> ButtonPress:
        chat = Chat(self.address, "direct", self.thread_id)
        return ButtonPress(self.button, self.address, "", chat, "", self.id, (f"link:{self.id}",), self.reference)


def make_link(url: str, key: str, button: Button, target: Target, now: datetime) -> str:
    """Return the address of a decision.

    url: url of the account's webhook.
    key: signs it.
    """
    reference = {name: str(target.reference[name]) for name in ("id", "subject") if target.reference.get(name)}
    chat, expires = target.chat, int((now + _LIFETIME).timestamp())
    content = json.dumps([button.action_id, button.label, chat.id, chat.thread_id, reference, expires])
    body = base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")
    return f"{url}?decide={quote(f'{body}.{_mac(body, key)}')}"


def read_link(query: str, key: str, now: datetime) -> Decision | None:
    """Return the decision of a link by its query; None if it is forged, malformed or has expired."""
    given = parse_qs(query[:_LONGEST]).get("decide", [""])
    body, _, mac = given[0].partition(".")
    if not key or len(given) != 1 or not hmac.compare_digest(mac.encode(), _mac(body, key).encode()):
        return None
    button, label, address, thread_id, reference, expires = json.loads(base64.urlsafe_b64decode(body + "=="))
    if now.timestamp() > expires:
        return None
    return Decision(hashlib.sha256(body.encode()).hexdigest()[:40], button, label, address, thread_id, reference)


def page(decision: Decision) -> str:
    """Return the page that asks for the decision."""
    label = escape(decision.label)
    text = f"<p>The request was sent to {escape(decision.address)}. You decide by this button:</p>"
    return _page(f'{text}<form method="post"><button type="submit">{label}</button></form>')


def thanks(decision: Decision) -> str:
    """Return the page after the decision. Its outcome is decided later: the approval may have ended meanwhile."""
    return _page(f"<p>“{escape(decision.label)}” was received. The outcome follows by e-mail.</p>")


def _page(content: str) -> str:
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    style = "<style>body{font:1rem/1.5 system-ui;max-width:30rem;margin:3rem auto;padding:0 1rem}</style>"
    return (
        f'<!doctype html><html lang="en"><head>{head}<title>Approval</title>{style}</head><body>{content}</body></html>'
    )


def _mac(body: str, key: str) -> str:
    return hmac.new(key.encode(), f"decide:{body}".encode(), hashlib.sha256).hexdigest()
