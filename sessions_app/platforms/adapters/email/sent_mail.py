"""Mails of ours: their text and HTML, their threads, and how an SMTP server takes them."""

import hashlib
import smtplib
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from functools import cache
from html import escape
from typing import Any

import nh3
from markdown_it import MarkdownIt

from sessions_app.platforms.adapters.email.access_tokens import REFUSED_ANEW, xoauth2
from sessions_app.platforms.adapters.email.received_mail import LOOP_HEADER
from sessions_app.platforms.base import SendCertainty, SendError
from sessions_app.platforms.messages import Outgoing, Rendered
from sessions_app.platforms.rendering.renderer import MarkdownSource, PlainText, render
from sessions_app.platforms.rendering.spans import plain_text
from tools_app.network.async_transport import ssl_context

MAX_TEXT = 100_000
_SECONDS = 30.0
_BLOCKS = {"blockquote", "br", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "ul"}
_INLINE = {"a", "code", "em", "s", "strong"}
_TABLES = {"table", "tbody", "td", "th", "thead", "tr"}
_cleaner = nh3.Cleaner(
    tags=_BLOCKS | _INLINE | _TABLES,
    attributes={"a": {"href"}, "ol": {"start"}},
    url_schemes={"http", "https", "mailto", "tel"},
    url_relative="deny",
    link_rel="noopener noreferrer",
)


@dataclass(frozen=True)
class SmtpServer:
    """A server that takes our mails.

    security: tls | starttls | none
    is_token: the password is an access token
    """

    host: str
    port: int
    security: str
    user: str
    password: str = field(repr=False)
    is_token: bool = False


class LoginRefused(SendError):
    """The server refuses the login."""


def rendered(markdown: str) -> tuple[Rendered, ...]:
    """Return the text and the HTML of a mail, almost always in one part."""
    sources = [part.body for part in render(markdown, MarkdownSource(), MAX_TEXT)]
    return tuple(Rendered(plain_text(PlainText().read(source)) or source, to_html(source)) for source in sources)


def to_html(markdown: str) -> str:
    """Return the HTML of Markdown, without anything that is loaded from elsewhere: such pictures report who reads."""
    return _cleaner.clean(_parser().render(markdown))


def message_id_of(message: Outgoing, address: str) -> str:
    """Return the Message-ID of a mail, the same at each try. It names the thread, for replies that name only it."""
    digest, thread = hashlib.sha256(message.key.encode()).hexdigest()[:40], message.target.chat.thread_id
    return f"{digest}{f'.{thread}' if thread else ''}@{address.rpartition('@')[2]}"


def recipients_of(message: Outgoing) -> list[str]:
    """Return the addresses that get a mail, that of To first. Whatever can be decided goes to the sender alone."""
    reference, sender = message.target.reference, message.target.chat.id
    is_answer = message.kind in ("answer", "step", "failure") and not message.buttons
    copies = reference.get("copies", ()) if is_answer else ()
    first = reference.get("reply_to")
    return list(dict.fromkeys([first if first in copies else sender, *copies]))


def compose(
    message: Outgoing, address: str, name: str, links: Sequence[tuple[str, str]], now: datetime
) -> EmailMessage:
    """Return the mail.

    address, name: ours.
    links: label and address of each decision.
    """
    mail = EmailMessage(policy=SMTP)
    reference = message.target.reference
    subject = str(reference.get("subject") or f"Message from {name or address}")
    is_answer = bool(reference.get("id"))
    mail["From"] = Address(name, addr_spec=address)
    to, *copies = [Address(addr_spec=one) for one in recipients_of(message)]
    mail["To"] = to
    if copies:
        mail["Cc"] = copies
    mail["Subject"] = f"Re: {subject}" if is_answer and not subject.lower().startswith("re:") else subject
    mail["Date"] = format_datetime(now)
    mail["Message-ID"] = f"<{message_id_of(message, address)}>"
    if is_answer:
        mail["In-Reply-To"] = f"<{reference['id']}>"
        earlier = [*reference.get("references", ()), reference["id"]]
        mail["References"] = " ".join(f"<{one}>" for one in dict.fromkeys(earlier))
    mail["Auto-Submitted"] = "auto-replied" if is_answer else "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail[LOOP_HEADER] = address
    html = message.rendered.body + "".join(
        f'<p><a href="{escape(url)}" rel="noopener noreferrer">{escape(label)}</a></p>' for label, url in links
    )
    mail.set_content("\n\n".join([message.rendered.text, *(f"{label}: {url}" for label, url in links)]))
    mail.add_alternative(f"<!doctype html><html><body>{html}</body></html>", subtype="html")
    if file := message.file:
        main, _, sub = file.media_type.partition("/")
        mail.add_attachment(file.content, maintype=main, subtype=sub or "octet-stream", filename=file.name)
    return mail


def hand_over(server: SmtpServer, mail: EmailMessage, sender: str, recipients: Sequence[str]) -> None:
    """Send a mail. Blocks. Raises SendError, also if the first address is refused; others are left out then."""
    content = mail.as_bytes()
    try:
        smtp = _connect(server)
    except (OSError, smtplib.SMTPException) as error:
        raise _not_connected(error, server) from None
    try:
        _check(*smtp.mail(sender, [f"size={len(content)}"] if smtp.has_extn("size") else ()))
        _check(*smtp.rcpt(recipients[0]))
        for copied in recipients[1:]:
            smtp.rcpt(copied)
        _hand_over_content(smtp, content)
    except (OSError, smtplib.SMTPException) as error:
        problem = f"The mail server ended the connection ({type(error).__name__})."
        raise SendError(problem, SendCertainty.NOT_SENT) from None
    finally:
        with suppress(OSError, smtplib.SMTPException):
            smtp.quit()


def _hand_over_content(smtp: smtplib.SMTP, content: bytes) -> None:
    """Send the content. After that has begun, a lost connection makes the outcome unknown."""
    try:
        _check(*smtp.data(content))
    except smtplib.SMTPDataError as error:
        raise _refused(error.smtp_code, error.smtp_error) from None
    except (OSError, smtplib.SMTPException) as error:
        problem = f"The connection was lost before the mail server answered ({type(error).__name__})."
        raise SendError(problem, SendCertainty.UNKNOWN) from None


def test(server: SmtpServer) -> None:
    """Log in, and out again. Blocks. Raises SendError."""
    try:
        _connect(server).quit()
    except (OSError, smtplib.SMTPException) as error:
        raise _not_connected(error, server) from None


def _connect(server: SmtpServer) -> smtplib.SMTP:
    if server.security == "tls":
        smtp: smtplib.SMTP = smtplib.SMTP_SSL(server.host, server.port, timeout=_SECONDS, context=ssl_context())
    else:
        smtp = smtplib.SMTP(server.host, server.port, timeout=_SECONDS)
    try:
        if server.security == "starttls":
            smtp.starttls(context=ssl_context())
        smtp.ehlo_or_helo_if_needed()
        if server.is_token:  # a refusal is explained in a challenge, which an empty response answers
            response = xoauth2(server.user, server.password)
            smtp.auth("XOAUTH2", lambda challenge=None: "" if challenge else response)
        elif server.user:
            smtp.login(server.user, server.password)
    except BaseException:
        smtp.close()
        raise
    return smtp


def _not_connected(error: Exception, server: SmtpServer) -> SendError:
    if isinstance(error, smtplib.SMTPAuthenticationError) and error.smtp_code >= 500:
        code, answer = error.smtp_code, error.smtp_error
        remedy = REFUSED_ANEW.format(protocol="SMTP") if server.is_token else "enter the password again"
        problem = f"The SMTP server refuses the login of {server.user} ({code}): {remedy}."
        if server.is_token:
            problem += f" It answered: {answer.decode('utf-8', 'replace') if isinstance(answer, bytes) else answer}"
        return LoginRefused(problem[:500], SendCertainty.REFUSED, ends_account=True)
    if isinstance(error, ssl.SSLCertVerificationError | smtplib.SMTPNotSupportedError):
        return SendError(f"{server.host} cannot be used: {error}"[:300], SendCertainty.NOT_SENT, slows_account=True)
    return SendError(f"No connection to {server.host} ({type(error).__name__}).", SendCertainty.NOT_SENT)


def _check(code: int, answer: bytes) -> None:
    if code not in (250, 251):
        raise _refused(code, answer)


def _refused(code: int, answer: bytes | str) -> SendError:
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    certainty = SendCertainty.NOT_SENT if 400 <= code < 500 else SendCertainty.REFUSED
    return SendError(f"The mail server answered {code}: {text}"[:300], certainty)


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.add_render_rule("image", _render_image)
    return parser


def _render_image(self: Any, tokens: Sequence[Any], index: int, options: Any, env: Mapping[str, Any]) -> str:
    """Return a link in place of a picture."""
    token = tokens[index]
    return f'<a href="{escape(str(token.attrGet("src") or ""))}">{escape(token.content or "image")}</a>'
