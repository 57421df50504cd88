"""Mails as channel events: who wrote, in which thread, the new text, the files. Pure."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage, MIMEPart
from typing import Any

from sessions_app.platforms.adapters.email import written_texts
from sessions_app.platforms.adapters.email.authenticity import DMARC, VERIFIED, proof_of, suffices
from sessions_app.platforms.adapters.email.mail_parser import MOST_PARTS, TooManyParts, parse
from sessions_app.platforms.adapters.email.written_texts import WrittenText
from sessions_app.platforms.messages import (
    Attachment,
    ChannelEvent,
    ChannelMessage,
    Chat,
    ChatEvent,
    DeliveryReport,
    Ignored,
    Quoted,
    is_command,
)
from tools_app.network import page_text

LOOP_HEADER = "X-Komand-Loop"
_END_OF_HEADERS = re.compile(rb"\r?\n\r?\n")
_ID = re.compile(r"<([^<>\s]{1,900})>")
_ADDRESS = re.compile(r"[^@\s<>\"(),:;]{1,64}@[a-z0-9][a-z0-9.-]{0,250}", re.ASCII)
_ROBOTS = re.compile(r"(?:mailer-daemon|postmaster|no-?reply|do-?not-?reply|bounces?)(?:[+-].*)?@", re.IGNORECASE)
_BULK = frozenset(["bulk", "list", "junk", "auto_reply"])
_DECISIONS = frozenset(["/approve", "/deny"])
_LONGEST_SUBJECT, _MOST_REFERENCES, _MOST_FILES, _MOST_COPIES = 200, 20, 10, 10
_CLOCKS_DIFFER = timedelta(days=1)
_KINDS = ("image", "audio", "video")
# Elements of which a page's text may be taken alone: a forwarded mail must not choose what is read of the whole.
_MAIN_PART = re.compile(rb"<(/?)(?:main|article)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Policy:
    """The rules of an account.

    address: ours.
    auth_server: the server whose verdicts count.
    least: the weakest proof of a sender that may talk.
    copy_domains: addresses there get an answer that a verified sender asks for by Reply-To or Cc.
    """

    address: str
    auth_server: str
    least: str
    copy_domains: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Place:
    """The place of a mail in the mailbox. validity: of the UIDs."""

    validity: int
    uid: int
    received_at: datetime


def read_mail(raw: bytes, rules: Policy, place: Place) -> ChannelEvent:
    """Return the event of a mail. One that cannot be parsed is ignored."""
    try:
        return _read(parse(raw), raw, rules, place)
    except TooManyParts:
        return too_large(_END_OF_HEADERS.split(raw, 1)[0] + b"\r\n\r\n", rules, place, f"{MOST_PARTS} parts")
    except Exception as error:  # the parser raises errors of many kinds for malformed headers
        return Ignored(f"malformed ({type(error).__name__})")


def too_large(raw_headers: bytes, rules: Policy, place: Place, most: str) -> ChannelEvent:
    """Return the event of a mail of which only the headers were fetched. most: the limit, as text."""
    found = read_mail(raw_headers, rules, place)
    if not isinstance(found, ChannelMessage):
        return found
    values = {**vars(found), "text": "", "quoted": (), "attachments": (), "unreadable": f"mail of more than {most}"}
    return ChannelMessage(**values)


def files_of(mail: EmailMessage) -> list[EmailMessage]:
    """Return the attached parts, in order. Pictures within HTML are no files of their own."""
    body = mail.get_body(("plain", "html"))
    return [part for part in _leaves(mail) if part is not body and _is_file(part)]


def content_of(part: MIMEPart) -> bytes:
    """Return the content of an attached part."""
    if part.get_content_maintype() == "message":
        inner: Any = part.get_payload(0)
        return bytes(inner.as_bytes())
    payload: Any = part.get_payload(decode=True)
    return bytes(payload or b"")


def _read(mail: EmailMessage, raw: bytes, rules: Policy, place: Place) -> ChannelEvent:
    authors = mail.get_all("From", [])
    people: Any = authors[0].addresses if len(authors) == 1 else ()  # our mail server may have judged the other one
    sender = str(people[0].addr_spec).lower() if len(people) == 1 else ""
    if report := _bounce(mail):
        return report
    if not _ADDRESS.fullmatch(sender):
        return Ignored("no_sender")
    if why := _unwanted(mail, sender, rules):
        return Ignored(why)
    message_id = _first_id(mail, "Message-ID") or f"{hashlib.sha256(raw).hexdigest()}@without-id"
    references = _ids(mail, "References") or _ids(mail, "In-Reply-To")
    chat = Chat(sender, "direct", _thread(mail, references, message_id, rules.address))
    keys, name = (f"mail:{message_id}",), people[0].display_name
    proof = proof_of(_verdicts(mail), rules.auth_server, sender.partition("@")[2])
    sent_at = _sent_at(mail, place.received_at)
    body = mail.get_body(("plain", "html"))
    written = written_texts.part(_decoded(body) if body is not None else "")
    text = _text(mail, written, is_reply=bool(references))
    is_decision = text.split(maxsplit=1)[:1] and text.split(maxsplit=1)[0] in _DECISIONS
    # Whoever can write a From header could decide otherwise.
    if not suffices(proof, DMARC if is_decision else rules.least):
        return ChatEvent("sender_not_verified", chat, sender, name, keys, sent_at)
    subject, is_verified = _subject(mail), suffices(proof, VERIFIED)
    reply_to, copies = _further_recipients(mail, {sender, rules.address.lower()}) if is_verified else ("", ())
    trusted = [one for one in copies if one.rpartition("@")[2] in rules.copy_domains]
    return ChannelMessage(
        message_id=message_id,
        sender_id=sender,
        sender_name=name,
        text=text,
        sent_at=sent_at,
        chat=chat,
        keys=keys,
        quoted=tuple(_quoted(mail, written, _ours(_first_id(mail, "In-Reply-To"), rules.address))),
        reply_to_message_id=_first_id(mail, "In-Reply-To"),
        event_id=f"{place.validity}.{place.uid}",
        attachments=tuple(_attachment(part, place, index) for index, part in enumerate(files_of(mail)[:_MOST_FILES])),
        metadata={"subject": subject, "to": _header(mail, "To")[:1000], "senderProof": proof},
        copies=tuple(one for one in copies if one not in trusted),
        reference={
            "id": message_id,
            "references": references[-_MOST_REFERENCES:],
            "subject": subject,
            **({"copies": trusted, "reply_to": reply_to} if copies else {}),
        },
    )


def _verdicts(mail: EmailMessage) -> list[str]:
    """Return the values of Authentication-Results as they were sent: to decode a sender's part could add a result."""
    return [str(value) for name, value in mail.raw_items() if name.lower() == "authentication-results"]


def _thread(mail: EmailMessage, references: list[str], message_id: str, address: str) -> str:
    """Return the thread of a mail: the one that a Message-ID of ours names, else that of its first mail.

    Many programs name only the mail that they answer. A thread belongs to its sender: naming another's is useless.
    """
    ours = re.compile(rf"[0-9a-f]{{40}}\.([0-9a-f]{{32}})@{re.escape(address.rpartition('@')[2])}", re.IGNORECASE)
    found = (ours.fullmatch(one) for one in (*_ids(mail, "In-Reply-To"), *reversed(references)))
    root = references[0] if references else message_id
    return next((match[1].lower() for match in found if match), hashlib.sha256(root.encode()).hexdigest()[:32])


def _ours(message_id: str, address: str) -> str:
    """Return a Message-ID if it is that of a mail of ours, else empty."""
    ours = rf"[0-9a-f]{{40}}(?:\.[0-9a-f]{{32}})?@{re.escape(address.rpartition('@')[2])}"
    return message_id if re.fullmatch(ours, message_id, re.IGNORECASE) else ""


def _further_recipients(mail: EmailMessage, known: set[str]) -> tuple[str, tuple[str, ...]]:
    """Return the address in Reply-To, perhaps empty, and all addresses in Reply-To and Cc but the known ones."""

    def read(name: str) -> list[str]:
        people: Any = mail[name].addresses if mail[name] else ()
        found = [str(person.addr_spec).lower() for person in people]
        usable = [one for one in found if one.isascii() and _ADDRESS.fullmatch(one)]  # we write to no others
        return [one for one in usable if not _ROBOTS.match(one) and one not in known]

    reply_to = read("Reply-To")
    return "".join(reply_to[:1]), tuple(dict.fromkeys([*reply_to[:1], *read("Cc")]))[:_MOST_COPIES]


def _unwanted(mail: EmailMessage, sender: str, rules: Policy) -> str:
    """Return why the mail gets no answer: machines answer machines for ever. Empty if a person may have written it."""
    if sender == rules.address.lower() or mail[LOOP_HEADER]:
        return "own_mail"
    automatic = _header(mail, "Auto-Submitted").partition(";")[0].strip().lower()
    if automatic not in ("", "no") or _header(mail, "Precedence").strip().lower() in _BULK:
        return "automatic"
    if mail["List-Id"] or mail["List-Unsubscribe"]:
        return "list"
    suppressed = {word.strip().lower() for word in _header(mail, "X-Auto-Response-Suppress").split(",")}
    if suppressed & {"all", "autoreply"}:
        return "no_answer_wanted"
    if _header(mail, "Return-Path").strip() == "<>" or mail.get_content_type() == "multipart/report":
        return "bounce"
    return "robot" if _ROBOTS.match(sender) else ""


def _bounce(mail: EmailMessage) -> DeliveryReport | None:
    """Return the report that a mail of ours could not be delivered (RFC 3464), None for other mails."""
    if mail.get_content_type() != "multipart/report":
        return None
    parts = {part.get_content_type(): part for part in mail.walk()}
    status, ours = parts.get("message/delivery-status"), parts.get("message/rfc822") or parts.get("text/rfc822-headers")
    if status is None or ours is None or "action: failed" not in status.as_string().lower():
        return None
    found = re.search(r"^Message-ID:\s*<([^<>\s]+)>", ours.as_string(), re.IGNORECASE | re.MULTILINE)
    diagnostic = re.search(r"^Diagnostic-Code:\s*(.+)$", status.as_string(), re.IGNORECASE | re.MULTILINE)
    return DeliveryReport(found[1], "failed", (diagnostic[1] if diagnostic else "It bounced.")[:500]) if found else None


def _text(mail: EmailMessage, written: WrittenText, *, is_reply: bool) -> str:
    subject = _subject(mail)
    # The subject of a mail that passes another one on is that one's.
    if is_reply or is_command(written.own) or not subject or written.below or _is_forward(mail):
        return written.own
    return f"{subject}\n\n{written.own}".strip()


def _quoted(mail: EmailMessage, written: WrittenText, answered: str) -> Iterator[Quoted]:
    """Yield the texts of others. answered: Message-ID of our mail that it answers: what stands below is ours then."""
    is_forward, subject = _is_forward(mail), _subject(mail)
    below = "" if answered and written.own and not is_forward else written.below
    if below or is_forward:
        yield Quoted(f"{subject and f'Subject: {subject}'}\n\n{below}".strip(), is_forward=True)
    for quote in written.quotes:
        lead = "" if answered else f"{quote.lead}\n"
        yield Quoted(f"{lead}{quote.text}".strip(), message_id=answered)


def _is_forward(mail: EmailMessage) -> bool:
    is_attached = any(part.get_content_maintype() == "message" for part in _leaves(mail))
    return is_attached or written_texts.is_forward(_subject(mail))


def _subject(mail: EmailMessage) -> str:
    return _header(mail, "Subject").strip()[:_LONGEST_SUBJECT]


def _decoded(part: MIMEPart) -> str:
    content, kind = content_of(part), part.get_content_type()
    content = _MAIN_PART.sub(rb"<\1div", content) if kind == "text/html" else content
    return page_text.read(content, media_type=kind, charset=part.get_content_charset(), url="").text.replace("\0", "")


def _leaves(mail: EmailMessage) -> Iterator[EmailMessage]:
    """Yield the parts that contain no others. A forwarded mail is one part."""
    if mail.get_content_maintype() != "multipart":
        yield mail
        return
    for part in mail.iter_parts():
        yield from _leaves(part)  # type: ignore[arg-type]


def _is_file(part: EmailMessage) -> bool:
    if part.get_content_disposition() == "attachment" or part.get_content_maintype() == "message":
        return True
    return bool(part.get_filename()) and not part["Content-ID"]


def _attachment(part: EmailMessage, place: Place, index: int) -> Attachment:
    mime_type = part.get_content_type()
    name = part.get_filename() or ("message.eml" if mime_type == "message/rfc822" else None)
    family = mime_type.partition("/")[0]
    kind = family if family in _KINDS else "file"
    return Attachment(
        f"{place.validity}.{place.uid}.{index}", kind, name, mime_type, len(content_of(part)), None, "bot"
    )


def _sent_at(mail: EmailMessage, received_at: datetime) -> datetime:
    """Return the time of the Date header, if it can be true."""
    sent_at: datetime | None = mail["Date"].datetime if mail["Date"] else None
    if sent_at is None:
        return received_at.astimezone(UTC)
    sent_at = (sent_at if sent_at.tzinfo else sent_at.replace(tzinfo=UTC)).astimezone(UTC)
    return sent_at if abs(sent_at - received_at) < _CLOCKS_DIFFER else received_at.astimezone(UTC)


def _header(mail: EmailMessage, name: str) -> str:
    """Return a header on one line."""
    return " ".join(str(mail[name] or "").split())


def _ids(mail: EmailMessage, name: str) -> list[str]:
    return _ID.findall(str(mail[name] or ""))


def _first_id(mail: EmailMessage, name: str) -> str:
    return next(iter(_ids(mail, name)), "")
