"""E-mail: mails arrive from an IMAP mailbox over a connection of our own, and are sent by SMTP."""

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar

from audit_app.kernel.errors import InvalidInput
from sessions_app.platforms.account_settings import AccountSettings, Setting
from sessions_app.platforms.adapters.email import decision_links, mailbox, sent_mail
from sessions_app.platforms.adapters.email.access_tokens import AccessTokens, Grant, endpoint_of
from sessions_app.platforms.adapters.email.authenticity import LADDER, UNNAMED, VERIFIED
from sessions_app.platforms.adapters.email.imap import Imap, ImapError, Server
from sessions_app.platforms.adapters.email.received_mail import Policy
from sessions_app.platforms.base import (
    MIB,
    Acknowledgement,
    ChannelAdapter,
    Checked,
    SendCertainty,
    SendError,
    VerificationFailed,
    WebhookRequest,
    read_guide,
)
from sessions_app.platforms.link import Link
from sessions_app.platforms.messages import Attachment, Capabilities, ChannelEvent, Chat, Ignored, Outgoing, Rendered

_ADDRESS = re.compile(r"[!-~]{1,64}@[a-z0-9][a-z0-9.-]{0,250}", re.ASCII | re.IGNORECASE)
_POLL_SECONDS = 30.0
# Ends an exchange with an autoresponder that does not mark its mails as such, and is too slow for the other limits.
_MESSAGES_PER_DAY = 100
_SMTP_PORTS = {"tls": 465, "starttls": 587, "none": 25}
_IMAP_PORTS = {"tls": 993, "none": 143}
# Seconds before the second and later tries, as mail servers do it, and the lifetime of a mail.
_RETRIES, _LIFETIME_SECONDS = (300.0, 1800.0, 7200.0, 14_400.0), 86_400.0


class Email(ChannelAdapter):
    slug = "email"
    name = "Email"
    summary = "IMAP in, SMTP out"
    setup_guide = read_guide(__file__)
    methods: ClassVar[Sequence[str]] = ("GET", "POST")  # of the links that decide approval requests
    max_body_bytes: ClassVar[int] = 1024
    can_listen = True
    messages_per_day = _MESSAGES_PER_DAY
    asked_by = "auth"
    config_fields: ClassVar[Mapping[str, Setting]] = {
        "address": Setting("our address", is_required=True),
        "display_name": Setting("our name in the From header"),
        "auth": Setting(
            "login by password, or by oauth2 as Microsoft 365 needs it; default password",
            "choice",
            choices=("password", "oauth2"),
        ),
        "imap_host": Setting("the IMAP server", is_required=True, is_address=True),
        "imap_port": Setting("its port; default 993", "number", is_address=True),
        "imap_security": Setting(
            "tls, or none within this machine; default tls", "choice", choices=("tls", "none"), is_address=True
        ),
        "folder": Setting("the folder whose mails are answered; default INBOX"),
        "poll_seconds": Setting(
            "seconds between two looks, for servers without IDLE; default 30, at most 60", "number"
        ),
        "smtp_host": Setting("the SMTP server", is_required=True, is_address=True),
        "smtp_port": Setting("its port; default 465 with tls, 587 with starttls", "number", is_address=True),
        "smtp_security": Setting(
            "tls, starttls, or none within this machine; default tls",
            "choice",
            choices=("tls", "starttls", "none"),
            is_address=True,
        ),
        "username": Setting("login of both servers; default: the address"),
        "oauth_client_id": Setting("the application (client) id that may use the mailbox, with oauth2"),
        "oauth_tenant": Setting("with oauth2 at Microsoft: the directory (tenant) id; default common"),
        "oauth_token_url": Setting(
            "with oauth2, the address of access tokens; default: Google's or Microsoft's, by imap_host", "url"
        ),
        "auth_server": Setting(
            "name of our mail server in Authentication-Results, whose verdicts are trusted; offered by `channel test`"
        ),
        "copy_domains": Setting("domains whose addresses get answers that a sender asks for by Reply-To or Cc", "ids"),
        "senders": Setting("weakest proof of a sender that gets an answer; default verified", "choice", choices=LADDER),
    }
    secret_fields: ClassVar[Mapping[str, str]] = {
        "password": "the password of the mailbox, often an app password",
        "smtp_password": "the password of the SMTP server, if it is another one",
        "oauth_client_secret": "the client secret of the application, with oauth2; empty for one without",
        "oauth_refresh_token": "the refresh token by which the mailbox's owner allows access, with oauth2",
        "link_key": "signs the links that decide approval requests; generated if not given",
    }
    unsent_secrets: ClassVar[Sequence[str]] = ("link_key",)
    required_secrets: ClassVar[Sequence[str]] = ("link_key",)

    def __init__(self, account: AccountSettings, **options: Any) -> None:
        super().__init__(account, **options)
        config, hidden = account.config, account.secrets
        self._address = str(config["address"])
        if not _ADDRESS.fullmatch(self._address):
            raise InvalidInput("Email: address is not an e-mail address in ASCII.", code="bad_account")
        domains = frozenset(str(one).lower() for one in config.get("copy_domains", ()))
        least = str(config.get("senders") or VERIFIED)
        self._rules = Policy(self._address, str(config.get("auth_server", "")), least, domains)
        given = {name: config.get(name) or default for name, default in self.asks(account).items()}
        user, folder = str(given["username"]), str(config.get("folder") or "INBOX")
        self._tokens = self._make_tokens(given) if _uses_oauth(account) else None
        port, is_tls, password = (
            int(given["imap_port"] or 0),
            given["imap_security"] == "tls",
            hidden.get("password", ""),
        )
        self._imap = Server(str(config["imap_host"]), port, is_tls, user, password, folder, self._tokens)
        port, security = int(given["smtp_port"] or 0), str(given["smtp_security"])
        password = hidden.get("smtp_password") or password
        self._smtp = sent_mail.SmtpServer(str(config["smtp_host"]), port, security, user, password)

    def _make_tokens(self, given: Mapping[str, Any]) -> AccessTokens:
        account = self.account
        default_url, scopes = endpoint_of(str(account.config["imap_host"]), str(given.get("oauth_tenant")))
        url = str(given["oauth_token_url"] or default_url)
        secret = account.secrets.get("oauth_client_secret", "")
        refresh_token = account.secrets["oauth_refresh_token"]
        grant = Grant(url, str(given["oauth_client_id"]), scopes if url == default_url else "", secret, refresh_token)
        return AccessTokens(grant, account.reachable, self.clock)

    @classmethod
    def asks(cls, account: AccountSettings) -> dict[str, str | None]:
        config = account.config
        imap, smtp = (str(config.get(name) or "tls") for name in ("imap_security", "smtp_security"))
        return {
            "address": None,
            "auth": "password",
            "imap_host": None,
            "imap_security": "tls",
            "imap_port": str(_IMAP_PORTS.get(imap, "")),
            "smtp_host": None,
            "smtp_security": "tls",
            "smtp_port": str(_SMTP_PORTS.get(smtp, "")),
            "username": str(config.get("address") or "the address"),
            **(_asks_of_oauth(config) if _uses_oauth(account) else {"password": None}),
            "link_key": None,
        }

    @classmethod
    def make_secrets(cls) -> dict[str, str]:
        return {"link_key": secrets.token_urlsafe(32)}

    def verify(self, request: WebhookRequest, now: datetime) -> None:
        """Verify the link of a decision: mails themselves never come this way."""
        if decision_links.read_link(request.query, self.account.secrets["link_key"], now) is None:
            raise VerificationFailed

    def parse(self, request: WebhookRequest, now: datetime) -> Sequence[ChannelEvent]:
        decision = decision_links.read_link(request.query, self.account.secrets["link_key"], now)
        return [decision.press()] if decision and request.method == "POST" else [Ignored("page")]

    def acknowledge(self, request: WebhookRequest, channel_events: Sequence[ChannelEvent]) -> Acknowledgement:
        decision = decision_links.read_link(request.query, self.account.secrets["link_key"], self.clock())
        if decision is None:
            return Acknowledgement(404, "This link has expired.", "text/plain; charset=utf-8")
        page = decision_links.thanks if request.method == "POST" else decision_links.page
        return Acknowledgement(200, page(decision), "text/html; charset=utf-8")

    @property
    def listens(self) -> bool:
        return True

    async def listen(self, link: Link) -> None:
        seconds = float(self.account.config.get("poll_seconds") or _POLL_SECONDS)
        await mailbox.receive(self._imap, link, self._rules, self.clock, seconds)

    def capabilities(self, chat: Chat) -> Capabilities:
        return Capabilities(
            buttons=self.account.public_url.startswith(("https://", "http://")),
            button_bytes=256,
            attachments_in=True,
            attachments_out=True,
            file_bytes=15 * MIB,
            file_in_bytes=25 * MIB,
            max_text=sent_mail.MAX_TEXT,
            threads=True,
            dialect="text and HTML",
            lifetime_seconds=_LIFETIME_SECONDS,
            retries=_RETRIES,
            send_seconds=90.0,
            chat_seconds=1.0,
            account_rate=2.0,
        )

    def render(self, markdown: str, chat: Chat) -> tuple[Rendered, ...]:
        return sent_mail.rendered(markdown)

    async def send(self, message: Outgoing) -> str:
        now, url, key = self.clock(), self.account.public_url, self.account.secrets["link_key"]
        links = [
            (button.label, decision_links.make_link(url, key, button, message.target, now))
            for button in message.buttons
        ]
        if not message.target.chat.id.isascii():
            raise SendError("Addresses outside of ASCII are not supported.", SendCertainty.REFUSED)
        name = str(self.account.config.get("display_name", ""))
        try:
            mail = sent_mail.compose(message, self._address, name, links, now)
        except ValueError as error:
            raise SendError(f"The mail cannot be written: {error}"[:300], SendCertainty.REFUSED) from None
        await self._use_smtp(sent_mail.hand_over, mail, self._address, sent_mail.recipients_of(message))
        return sent_mail.message_id_of(message, self._address)

    async def _use_smtp(self, use: Callable[..., None], *arguments: Any) -> None:
        """Call a function with the server, on a thread: once more with a new token if the first one is refused."""
        if self._tokens is None:
            await asyncio.to_thread(use, self._smtp, *arguments)
            return
        token = await self._tokens.get()
        try:
            await asyncio.to_thread(use, replace(self._smtp, password=token, is_token=True), *arguments)
        except sent_mail.LoginRefused:
            token = await self._tokens.get(refused=token)
            await asyncio.to_thread(use, replace(self._smtp, password=token, is_token=True), *arguments)

    async def renew_secrets(self) -> Mapping[str, str]:
        """Return the refresh token that replaces ours: Microsoft's end after 90 days, whether they are used or not."""
        if self._tokens is None:
            return {}
        await self._tokens.get()
        return {"oauth_refresh_token": self._tokens.renewed} if self._tokens.renewed else {}

    def fetch(self, file: Attachment, most_bytes: int) -> AsyncGenerator[bytes, None]:
        return mailbox.read_file(self._imap, file.id, most_bytes)

    async def check(self) -> Checked:
        await self._use_smtp(sent_mail.test)
        lines = [f"{self._smtp.host} accepts the login of {self._smtp.user}."]
        try:
            async with Imap(self._imap) as imap:
                way = "reports new mails at once" if imap.can_idle else "is asked for new mails again and again"
                lines.append(f"{self._imap.host} opens {self._imap.folder} and {way}.")
                seen = await _seen_server(imap)
        except ImapError as error:
            raise SendError(f"{self._imap.host}: {error}", SendCertainty.REFUSED) from None
        if not self.account.public_url.startswith("https://"):
            lines.append("Approval requests have no links: KOMAND_PUBLIC_URL must be an https:// address.")
        needs_server = self._rules.least == VERIFIED and not self._rules.auth_server
        lines += _about_server(seen, self._rules.auth_server)
        if needs_server:
            lines.append("No sender is verified and answered before auth_server is set, or senders to asserted.")
        return Checked(tuple(lines), offered={"auth_server": seen} if needs_server and seen else {})


def _uses_oauth(account: AccountSettings) -> bool:
    return account.config.get("auth") == "oauth2"


def _asks_of_oauth(config: Mapping[str, Any]) -> dict[str, str | None]:
    """Return what a login by OAuth needs. A provider is known by its server; before that is given, it may be any."""
    host, tenant = str(config.get("imap_host") or ""), str(config.get("oauth_tenant") or "common")
    url, scopes = endpoint_of(host, tenant)
    return {
        "oauth_client_id": None,
        "oauth_client_secret": "",
        **({"oauth_tenant": "common"} if scopes or not host else {}),
        "oauth_token_url": url if url or not host else None,
        "oauth_refresh_token": None,
    }


def _about_server(seen: str, trusted: str) -> Iterator[str]:
    """Yield the line that compares the name in the newest mail with the auth_server, for the operator."""
    if not seen:
        yield "The newest mail has no Authentication-Results: send one from another provider and test again."
        return
    is_same = seen.lower() == trusted.lower()
    state = "is the auth_server" if is_same else f"is not the auth_server ({trusted or 'none is set'})"
    name = "a server that writes no name" if seen == UNNAMED else seen
    yield f"The topmost Authentication-Results of the newest mail is by {name}, which {state}."


async def _seen_server(imap: Imap) -> str:
    """Return the server of the topmost Authentication-Results of the newest mail, empty if there is none."""
    newest = (await imap.search("ALL"))[-1:]
    header = await imap.fetch(newest[0], "HEADER.FIELDS (AUTHENTICATION-RESULTS)") if newest else None
    found = re.match(rb"Authentication-Results:\s*([^\s;]+)", header or b"", re.IGNORECASE)
    name = found[1].decode("ascii", "replace") if found else ""
    return UNNAMED if "=" in name else name
