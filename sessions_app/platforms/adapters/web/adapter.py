"""The web chat's adapter: requests of visitors' pages, verified by a token and the page's origin.

Nothing is sent: a visitor's page follows the events of its conversation, and reads its messages in the outbox.
"""

import re
import secrets as random
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import urlsplit
from uuid import UUID

from audit_app.kernel.errors import Forbidden, InvalidInput
from sessions_app.platforms.account_settings import AccountSettings, Setting
from sessions_app.platforms.adapters.web import host_page, visitor_tokens
from sessions_app.platforms.adapters.web.visitor_tokens import Visitor
from sessions_app.platforms.base import (
    Acknowledgement,
    ChannelAdapter,
    Checked,
    VerificationFailed,
    WebhookRequest,
    WrongShape,
    read_guide,
)
from sessions_app.platforms.messages import (
    Attachment,
    ButtonPress,
    Capabilities,
    ChannelEvent,
    ChannelMessage,
    Chat,
    Outgoing,
    Rendered,
    uploaded_source,
)
from sessions_app.platforms.rendering.renderer import MarkdownSource, render
from sessions_app.platforms.webhook_json import read_object

MAX_TEXT_IN, MAX_TEXT = 8000, 32_768
_MOST_FILES = 10
_BUTTON_BYTES = 200
_DIALECT = MarkdownSource()
_COLOUR = re.compile(r"#[0-9a-fA-F]{3,8}|light-dark\(#[0-9a-fA-F]{3,8}, ?#[0-9a-fA-F]{3,8}\)")
_ORIGIN = re.compile(r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:]+\])(?::[0-9]{1,5})?")
# Characters without a shape of their own: a message of these alone is empty.
_INVISIBLE = re.compile("[\\s\u200b-\u200f\u2060-\u2064\ufeff]+")


class OriginRefused(Forbidden):
    """Pages of this origin may not use the chat. An operator can add it to the origins of the account."""

    code = "origin_refused"


class Web(ChannelAdapter):
    slug = "web"
    name = "Web"
    summary = "a chat for the visitors of your own sites"
    setup_guide = read_guide(__file__)
    test_page = "/webchat/{account}/test"
    needs_public_url = False
    config_fields: ClassVar[Mapping[str, Setting]] = {
        "origins": Setting("sites that show the chat, such as https://www.example.org", "ids", is_required=True),
        "title": Setting("heading of the chat; default: Chat"),
        "agent_name": Setting("name of the agent, below the heading"),
        "picture": Setting("picture of the agent, beside the heading", "picture"),
        "greeting": Setting("text of a conversation without messages"),
        "starters": Setting("messages that a new conversation offers as buttons, such as Opening hours?", "ids"),
        "theme": Setting("colours: of the visitor's system, if it is not set", "choice", choices=("light", "dark")),
        "accent": Setting("colour of buttons and links, such as #0d6b60 or light-dark(#0d6b60, #63c9ba)"),
        "transcripts_from": Setting("name of the e-mail account that sends visitors their conversation; default: none"),
        "native_apps": Setting("true: apps, whose requests have no Origin header, may open conversations", "flag"),
    }
    secret_fields: ClassVar[Mapping[str, str]] = {
        "identity_secret": "with which your site names its users; generated if not given",
        "identity_secret_before": "the one before, which counts too until you remove it",
        "token_secret": "signs visitors' tokens; generated if not given, and a new one ends all conversations' tokens",
    }
    required_secrets: ClassVar[Sequence[str]] = ("identity_secret", "token_secret")
    shown_secrets: ClassVar[Sequence[str]] = ("identity_secret",)

    def __init__(self, account: AccountSettings, **options: Any) -> None:
        super().__init__(account, **options)
        wrong = [origin for origin in map(str, account.config["origins"]) if not _ORIGIN.fullmatch(origin)]
        if wrong:
            problem = f"origins: {wrong[0]!r} is not an origin: write it in lower case and without a path, https://www.example.org"
            raise InvalidInput(f"{self.name}: {problem}.", code="bad_account")
        accent = str(account.config.get("accent") or "")
        if accent and not _COLOUR.fullmatch(accent):
            raise InvalidInput(f"{self.name}: accent: {accent!r} is not a colour such as #0d6b60.", code="bad_account")
        short = [name for name in self.secret_fields if name in account.secrets and len(account.secrets[name]) < 32]
        if short:
            raise InvalidInput(f"{self.name}: {short[0]} must have at least 32 characters.", code="bad_account")

    @classmethod
    def make_secrets(cls) -> dict[str, str]:
        return {name: random.token_urlsafe(32) for name in cls.required_secrets}

    @property
    def origins(self) -> frozenset[str]:
        """The origins of the sites that may show the chat."""
        return frozenset(map(str, self.account.config["origins"]))

    @property
    def _own_origins(self) -> frozenset[str]:
        """This installation's public origin, from which the chat's own page sends its requests."""
        parts = urlsplit(self.account.public_url)
        return frozenset({f"{parts.scheme}://{parts.netloc}"} if parts.netloc else ())

    # Requests.

    def verify(self, request: WebhookRequest, now: datetime) -> None:
        visitor = self.read_visitor(request, now)
        try:
            self.check_origin(request, is_native=visitor.is_native)
        except OriginRefused:
            raise VerificationFailed from None

    def read_visitor(self, request: WebhookRequest, now: datetime) -> Visitor:
        """Return the visitor whose token the request has. Raises VerificationFailed."""
        scheme, _, token = request.header("authorization").partition(" ")
        if scheme.lower() != "bearer":
            raise VerificationFailed
        return visitor_tokens.read_token(self.account.secrets["token_secret"], self.account.account_id, token, now)

    def check_origin(self, request: WebhookRequest, *, is_native: bool, own: Collection[str] = ()) -> None:
        """Raise OriginRefused unless the request comes from a page of an allowed origin, or from an app.

        is_native: a missing header is accepted.
        own: further origins of this installation.
        """
        given = request.headers.get("origin", ())
        is_allowed = (
            is_native if not given else len(given) == 1 and given[0] in {*self.origins, *self._own_origins, *own}
        )
        if not is_allowed:
            raise OriginRefused

    def parse(self, request: WebhookRequest, now: datetime) -> Sequence[ChannelEvent]:
        body, visitor = read_object(request), self.read_visitor(request, now)
        if "actionId" in body:
            return [_read_press(body, visitor)]
        return [_read_message(body, visitor, now)]

    def acknowledge(self, request: WebhookRequest, channel_events: Sequence[ChannelEvent]) -> Acknowledgement:
        return Acknowledgement(202)

    # Messages of ours.

    def capabilities(self, chat: Chat) -> Capabilities:
        return Capabilities(
            buttons=True,
            button_bytes=_BUTTON_BYTES,
            max_text=MAX_TEXT,
            threads=True,
            dialect="Markdown",
            can_repeat=True,
            pushes_back=True,
            account_rate=1000.0,
        )

    def render(self, markdown: str, chat: Chat) -> tuple[Rendered, ...]:
        return render(markdown, _DIALECT, MAX_TEXT)

    async def send(self, message: Outgoing) -> str:
        """Return the message's key: it is read where it is stored."""
        return message.key

    async def check(self) -> Checked:
        sites = ", ".join(sorted(self.origins))
        return Checked((f"Pages of {sites} can show the chat. Try it on {self.test_page_url}.",))

    @property
    def test_page_url(self) -> str:
        origin = next(iter(self._own_origins), "")
        return origin + self.test_page.replace("{account}", self.account.account_id)


def chat_of(visitor: Visitor) -> Chat:
    """Return the chat of a visitor's conversation, which no other visitor can name."""
    return Chat(visitor.id, "direct", visitor.conversation_id)


def message_key(visitor: Visitor, message_id: str) -> str:
    """Return the key under which a message of the conversation is stored once."""
    return f"{visitor.id}:{visitor.conversation_id}:{message_id}"


def _read_message(body: Mapping[str, Any], visitor: Visitor, now: datetime) -> ChannelMessage:
    problems: dict[str, str] = {}
    message_id, text, files = body.get("clientMessageId"), body.get("text", ""), body.get("attachments") or []
    uploads = [_as_uuid(name) for name in files] if isinstance(files, list) else [None]
    if (known := _as_uuid(message_id)) is None:
        problems["clientMessageId"] = "must be a UUID"
    if not isinstance(text, str):
        problems["text"] = "must be text"
    elif len(text) > MAX_TEXT_IN:
        problems["text"] = f"has more than {MAX_TEXT_IN:,} characters"
    elif not _INVISIBLE.sub("", text) and not uploads:
        problems["text"] = "is empty"
    page = host_page.read_page(body.get("page") or {})
    if page is None:
        problems["page"] = host_page.PROBLEM
    if None in uploads or len(uploads) > _MOST_FILES:
        problems["attachments"] = f"must be a list of ids of uploads, at most {_MOST_FILES}"
    if problems:
        message = " ".join(f"{name} {problem}." for name, problem in problems.items())
        raise WrongShape(message, fields=problems)
    return ChannelMessage(
        message_id=str(known),
        sender_id=visitor.id,
        sender_name=visitor.name,
        text=str(text),
        sent_at=now,
        chat=chat_of(visitor),
        keys=(message_key(visitor, str(known)),),
        event_id=str(known),
        attachments=tuple(
            Attachment(uploaded_source(visitor.id, one), "file", auth="stored") for one in uploads if one
        ),
        surroundings=host_page.lines_of(page or {}),
        metadata={"conversationId": visitor.conversation_id, **({"page": page} if page else {})},
    )


def _read_press(body: Mapping[str, Any], visitor: Visitor) -> ButtonPress:
    action = body["actionId"]
    if not isinstance(action, str) or not 0 < len(action.encode()) <= _BUTTON_BYTES:
        problem = f"must be the id of a button, of at most {_BUTTON_BYTES} bytes"
        raise WrongShape(f"actionId {problem}.", fields={"actionId": problem})
    press_id = random.token_hex(16)
    return ButtonPress(action, visitor.id, visitor.name, chat_of(visitor), "", press_id, (f"press:{press_id}",))


def _as_uuid(value: Any) -> UUID | None:
    try:
        return UUID(value) if isinstance(value, str) and len(value) == 36 else None
    except ValueError:
        return None
