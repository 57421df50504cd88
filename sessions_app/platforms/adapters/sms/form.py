"""Requests of Twilio: their signature, and the messages and reports in their forms. Pure.

See https://www.twilio.com/docs/usage/webhooks/webhooks-security.
"""

import base64
import hmac
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from urllib.parse import parse_qsl, urlsplit

from sessions_app.platforms.base import WebhookRequest
from sessions_app.platforms.messages import (
    Attachment,
    ChannelEvent,
    ChannelMessage,
    Chat,
    ChatEvent,
    DeliveryReport,
    Ignored,
)

_NUMBER = re.compile(r"\+[1-9][0-9]{5,14}", re.ASCII)
_SHORT_CODE = re.compile(r"[0-9]{3,8}", re.ASCII)
_SID = re.compile(r"[A-Z]{2}[0-9a-f]{32}", re.ASCII)
_MOST_FILES = 10
_PORTS = {"https": 443, "http": 80}
# Twilio answers these itself; an answer of ours would be refused after the first group (error 21610).
_OPT_OUT = frozenset(["STOP", "STOPALL", "UNSUBSCRIBE", "END", "QUIT", "REVOKE", "OPTOUT", "CANCEL"])
_OPT_IN = frozenset(["START", "UNSTOP"])
_STATES = {"delivered": "delivered", "read": "read", "failed": "failed", "undelivered": "failed", "canceled": "failed"}
_KINDS = ("image", "audio", "video")
_EXTRAS = {
    "To": "to",
    "MessagingServiceSid": "messagingServiceSid",
    "NumSegments": "segments",
    "FromCity": "fromCity",
    "FromState": "fromState",
    "FromZip": "fromZip",
    "FromCountry": "fromCountry",
}


def is_signed(request: WebhookRequest, url: str, tokens: Sequence[str]) -> bool:
    """Return whether the request was signed with one of the tokens.

    url: url of the webhook, as Twilio knows it. It is tried with and without its default port: Twilio is not
        consistent.
    """
    names = defaultdict[str, set[str]](set)
    for name, value in parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True):
        names[name].add(value)
    content = "".join(name + value for name in sorted(names) for value in sorted(names[name]))
    given = request.header("x-twilio-signature").encode()
    full = f"{url}?{request.query}" if request.query else url
    digests = [
        base64.b64encode(hmac.digest(token.encode(), (address + content).encode(), "sha1"))
        for token in tokens
        if token
        for address in _spellings(full)
    ]
    # Check all of them: the duration must not reveal which one matched.
    return sum(hmac.compare_digest(given, digest) for digest in digests) > 0


def _spellings(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    yield url
    if parts.port is None and parts.scheme in _PORTS:
        yield parts._replace(netloc=f"{parts.netloc}:{_PORTS[parts.scheme]}").geturl()
    elif parts.port == _PORTS.get(parts.scheme):
        yield parts._replace(netloc=parts.netloc.rpartition(":")[0]).geturl()


def read_fields(fields: Mapping[str, str], numbers: frozenset[str], now: datetime) -> ChannelEvent:
    """Return the event of a form. numbers: ours."""
    if fields.get("MessageStatus") or fields.get("SmsStatus", "received") != "received":
        return _read_report(fields)
    sid, sender = fields.get("MessageSid", ""), fields.get("From", "")
    if not _SID.fullmatch(sid):
        return Ignored("malformed")
    if sender in numbers:
        return Ignored("own_message")
    if not _NUMBER.fullmatch(sender):  # nobody reads the answers to alphanumeric names and short codes
        return Ignored("short_code" if _SHORT_CODE.fullmatch(sender) else "no_number")
    chat, keys, body = Chat(sender), (f"sms:{sid}",), fields.get("Body", "")
    keyword = fields.get("OptOutType") or body.strip().upper()
    if keyword in _OPT_OUT or keyword in _OPT_IN:
        note = "opted_out" if keyword in _OPT_OUT else "opted_in"
        return ChatEvent(note, chat, sender, "", keys, now)
    if keyword in ("HELP", "INFO"):
        return Ignored("keyword")
    return ChannelMessage(
        message_id=sid,
        sender_id=sender,
        sender_name=fields.get("ProfileName", ""),
        text=body,
        sent_at=now,
        chat=chat,
        keys=keys,
        event_id=sid,
        attachments=_attachments(fields),
        metadata={shown: fields[name] for name, shown in _EXTRAS.items() if fields.get(name)},
    )


def _read_report(fields: Mapping[str, str]) -> ChannelEvent:
    sid, status = fields.get("MessageSid", ""), fields.get("MessageStatus") or fields.get("SmsStatus", "")
    if not _SID.fullmatch(sid) or status not in _STATES:
        return Ignored("status")
    code = fields.get("ErrorCode", "")
    return DeliveryReport(sid, _STATES[status], f"Twilio error {code[:20]}" if code else "")


def _attachments(fields: Mapping[str, str]) -> tuple[Attachment, ...]:
    count = fields.get("NumMedia", "")
    most = min(int(count[:3]), _MOST_FILES) if count.isascii() and count.isdecimal() else 0
    found = []
    for number in range(most):
        url, mime_type = fields.get(f"MediaUrl{number}", ""), fields.get(f"MediaContentType{number}", "")
        if url:
            family = mime_type.partition("/")[0]
            kind = family if family in _KINDS else "file"
            found.append(Attachment(url.rpartition("/")[2], kind, None, mime_type or None, None, url, "bot"))
    return tuple(found)
