"""The contract of a channel adapter: verify, parse, render, send. One object serves one account.

An adapter speaks to its platform and uses nothing else of Komand: no models, no settings. It reads the time from the
arguments `now`, or from `self.clock`.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

from audit_app.kernel.errors import AppError, Forbidden, InvalidInput
from sessions_app.platforms.account_settings import AccountSettings, Setting, find_problems
from sessions_app.platforms.link import Link
from sessions_app.platforms.messages import Attachment, Capabilities, ChannelEvent, Chat, Outgoing, Rendered, Target

MIB = 1024 * 1024


def utc_now() -> datetime:
    return datetime.now(UTC)


def read_guide(module_file: str, name: str = "set_up.md") -> str:
    """Return a set-up guide that lies beside an adapter's module."""
    return Path(module_file).with_name(name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class WebhookRequest:
    """A request to an account's webhook.

    headers: lower-case names, each with all its values.
    query: as in the URL.
    """

    body: bytes
    headers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    method: str = "POST"
    query: str = ""

    def header(self, name: str) -> str:
        """Return the value of a header that was sent exactly once, else an empty text: two values verify nothing."""
        values = self.headers.get(name, ())
        return values[0] if len(values) == 1 else ""

    @property
    def media_type(self) -> str:
        return self.header("content-type").partition(";")[0].strip().lower()

    @property
    def is_json(self) -> bool:
        return self.media_type == "application/json"


@dataclass(frozen=True)
class Acknowledgement:
    """The response to the platform. body: JSON, or a text of that content type."""

    status: int = 200
    body: Mapping[str, Any] | str | None = None
    content_type: str = "application/json"


@dataclass(frozen=True)
class Checked:
    """The result of `ChannelAdapter.check`.

    lines: for the operator.
    learned: settings to store.
    offered: settings to store if the operator agrees.
    """

    lines: tuple[str, ...]
    learned: Mapping[str, Any] = field(default_factory=dict)
    offered: Mapping[str, str] = field(default_factory=dict)


class VerificationFailed(Forbidden):
    """The request could not be verified."""

    code = "not_proven"


class NotReadable(InvalidInput):
    """The body cannot be decoded."""

    code = "not_readable"


class WrongMediaType(InvalidInput):
    """The body must be JSON."""

    code = "wrong_media_type"


class WrongShape(InvalidInput):
    """Fields of the body are missing or have wrong types."""

    code = "wrong_shape"


class Unsupported(InvalidInput):
    """The channel does not support this; see its capabilities."""

    code = "unsupported"


class SendCertainty(Enum):
    """The certainty about a message whose sending failed."""

    NOT_SENT = "it was not sent, a retry may succeed"
    UNKNOWN = "it may have been sent"
    REFUSED = "it was not sent, a retry would fail, too"


class SendError(AppError):
    """A message was not sent, or may not have been.

    certainty: decides whether it is retried.
    retry_after_seconds: the wait that the platform asked for, of the chat; with slows_account, of the whole account.
    moved_to: the id that the chat has now.
    ends_account: nothing more can be sent from this account: it is disabled.
    """

    code = "not_sent"

    def __init__(
        self,
        message: str,
        certainty: SendCertainty,
        *,
        retry_after_seconds: float | None = None,
        slows_account: bool = False,
        moved_to: str = "",
        ends_account: bool = False,
    ) -> None:
        super().__init__(message)
        self.certainty = certainty
        self.retry_after_seconds = retry_after_seconds
        self.slows_account = slows_account
        self.moved_to = moved_to
        self.ends_account = ends_account


class FetchError(AppError):
    """A file could not be fetched. is_final: a retry would fail, too."""

    code = "not_fetched"

    def __init__(self, message: str, *, is_final: bool) -> None:
        super().__init__(message)
        self.is_final = is_final


class ChannelAdapter(ABC):
    """One account of one channel. To add a channel, see docs/adding-a-channel.md.

    `verify`, `parse`, `acknowledge`, `capabilities` and `render` do no I/O and are called from several threads. The
    coroutines that send, and `fetch`, are called on one event loop, to which the adapter's connections belong.
    """

    slug: ClassVar[str]  # in URLs and commands: `telegram`
    name: ClassVar[str]  # in session ids: `Telegram`
    summary: ClassVar[str]  # one line for the documentation
    # What to create at the platform, in Markdown, for newcomers; the set-up page shows it. `{webhook}` is the account's
    # address, `{account}` its name, `{origin}` our public address. Below a line `---`: what to do once it exists.
    setup_guide: ClassVar[str] = ""
    # The path of our own page that shows the channel at work, if it has one. `{account}` stands for the account.
    test_page: ClassVar[str] = ""
    methods: ClassVar[Sequence[str]] = ("POST",)  # of the webhook; with GET if the platform first checks the address so
    max_body_bytes: ClassVar[int] = MIB  # longer requests are refused with status 413
    # The settings of an account, beside SHARED_SETTINGS, and its secrets, each with a phrase. Others are refused.
    config_fields: ClassVar[Mapping[str, Setting]] = {}
    secret_fields: ClassVar[Mapping[str, str]] = {}
    required_secrets: ClassVar[Sequence[str]] = ()
    shown_secrets: ClassVar[Sequence[str]] = ()  # generated, for an operator to enter elsewhere: shown once
    unsent_secrets: ClassVar[Sequence[str]] = ()  # they are kept when the account gets another address
    needs_public_url: ClassVar[bool] = True  # with https; not if webhooks may come from our own machine
    # The setting by which several accounts share one URL or connection: `parse` and `listen` report `OfAccount` for the
    # events of another one. Its settings must verify the request too, or share the connection (`shares_connection`).
    routed_by: ClassVar[str] = ""
    asked_by: ClassVar[str] = "receive"  # the setting, a choice, that decides what `asks` returns
    # Whether accounts can receive over a connection of their own; see `listens`. One that is silent for so long counts
    # as broken and is replaced: have the platform answer something more often than that.
    can_listen: ClassVar[bool] = False
    silent_seconds: ClassVar[float] = 90.0
    follows_threads: ClassVar[bool] = False  # the default of `groups`: messages of threads in which we have answered
    proves_senders: ClassVar[bool] = False  # by the platform itself: an id is one person at all accounts
    shows_presses: ClassVar[bool] = False  # people see by themselves which option of a question was pressed
    # Messages of one sender that are answered in a day, without a number of the account's own. None: any number.
    messages_per_day: ClassVar[int | None] = None

    def __init__(self, account: AccountSettings, *, clock: Callable[[], datetime] = utc_now) -> None:
        """Check the settings. Called in every process that uses the account, again after each change of it.

        Do no I/O here. Raises InvalidInput if the configuration or a secret is missing or unusable.
        """
        self.account = account
        self.clock = clock
        needed = [name for name, default in self.asks(account).items() if default is None]
        if problems := [*find_problems(account, needed, self.config_fields, self.secret_fields)]:
            raise InvalidInput(f"{self.name}: {', '.join(problems)}.", code="bad_account")

    @classmethod
    def asks(cls, account: AccountSettings) -> dict[str, str | None]:
        """Return the settings and secrets to ask an operator for, in order, given those that are known so far.

        Each has the value that counts if nothing is entered; None: it is required. The values so far are not checked.
        """
        required = (name for name, setting in cls.config_fields.items() if setting.is_required)
        return dict.fromkeys((*required, *cls.required_secrets))

    @classmethod
    def guide(cls, account: AccountSettings) -> str:
        """Return the set-up guide for an account with these settings, which may be incomplete."""
        return cls.setup_guide

    @classmethod
    def make_secrets(cls) -> dict[str, str]:
        """Return generated secrets by name. Called when an account is added, for secrets that were not given."""
        return {}

    # Inbound.

    @abstractmethod
    def verify(self, request: WebhookRequest, now: datetime) -> None:
        """Verify the origin of a request from its raw bytes. Called first for each request.

        now: in UTC. Raises VerificationFailed, however malformed the proof is. Compare secrets in constant time.
        """

    async def refresh(self, request: WebhookRequest) -> bool:
        """Fetch what `verify` may have lacked, such as the platform's newest public keys.

        Called for each request that could not be verified, so anyone can cause the call: limit its rate and its
        duration. Returns whether to call `verify` again. Raises nothing.
        """
        return False

    @abstractmethod
    def parse(self, request: WebhookRequest, now: datetime) -> Sequence[ChannelEvent]:
        """Return the events of a verified request, in order. now: in UTC.

        Return `Ignored` for malformed and unknown events, unless the sender reads the response: most platforms hold
        back later events after a refusal. Raises WrongMediaType, NotReadable (no JSON or UTF-8), WrongShape.
        """

    def acknowledge(self, request: WebhookRequest, channel_events: Sequence[ChannelEvent]) -> Acknowledgement:
        """Return the response to a request whose events have been stored. channel_events: empty if `parse` failed."""
        return Acknowledgement()

    @property
    def listens(self) -> bool:
        """True if this account receives by `listen`, in the process `sockets`, instead of by webhook."""
        return False

    async def listen(self, link: Link) -> None:
        """Receive events over a connection of our own until cancelled, if `listens`.

        Called on an adapter of its own, by one process at a time, again after each error. Raises ConnectionLost,
        NeedsAttention, CredentialsRefused, Unsupported.
        """
        raise Unsupported(f"{self.name} delivers by webhook alone.")

    def shares_connection(self, other: "ChannelAdapter") -> bool:
        """Return whether what arrives over a connection of another account of the channel may be for this one."""
        return False

    # Outbound.

    @abstractmethod
    def capabilities(self, chat: Chat) -> Capabilities:
        """Return the capabilities in that chat. What is not declared is not used. Called often: must be fast."""

    @abstractmethod
    def render(self, markdown: str, chat: Chat) -> tuple[Rendered, ...]:
        """Return the text in the channel's dialect, in parts within its limits; at least one.

        Called when an answer or a notice is stored, and for each preview.
        """

    def render_beginning(self, markdown: str, chat: Chat, most: int) -> tuple[Rendered, ...]:
        """Return the first parts of a text, at most so many, without a file in place of the others.

        Called for previews of the kind `edit`. If it returns several, each is a message that grows.
        """
        return tuple(part for part in self.render(markdown, chat) if not part.filename)[:1]

    @abstractmethod
    async def send(self, message: Outgoing) -> str:
        """Send a message once and return the platform's id of it, perhaps empty. Called by the sender, which retries.

        Also called to acknowledge a button press: then `message.kind` is `press`. Raises SendError.
        """

    async def edit(self, message: Outgoing, message_id: str) -> None:
        """Replace a sent message, if `edit_sent` or the draft kind `edit` is declared. Must be idempotent.

        message_id: as returned by `send`. Raises SendError, Unsupported.
        """
        raise Unsupported(f"{self.name} cannot edit sent messages.")

    async def draft(self, message: Outgoing, draft_id: int) -> None:
        """Show a preview of an unfinished answer in place of the last one, if the draft kind `native` is declared.

        draft_id: the same for all previews of a run, never 0. Raises SendError, Unsupported.
        """
        raise Unsupported(f"{self.name} has no previews.")

    async def typing(self, target: Target) -> None:
        """Show a typing indicator, if `typing` is declared. Raises SendError, Unsupported."""
        raise Unsupported(f"{self.name} has no typing indicator.")

    @classmethod
    def finds_names(cls) -> bool:
        """Return whether the platform can be asked for the names of senders."""
        return cls.find_name is not ChannelAdapter.find_name

    async def find_name(self, sender_id: str) -> str:
        """Return the display name of a sender whose messages lack it, empty if unknown. Called by a worker.

        Raises SendError.
        """
        return ""

    def fetch(self, file: Attachment, most_bytes: int) -> AsyncGenerator[bytes, None]:
        """Yield a received file in pieces, if `attachments_in` is declared. Called by a worker, which retries.

        most_bytes: raise FetchError for a longer file. Raises FetchError, Unsupported.
        """
        raise Unsupported(f"{self.name} delivers no files.")

    async def renew_secrets(self) -> Mapping[str, str]:
        """Return secrets that the platform replaces ours by. Called once a day, if `listens`. Raises SendError."""
        return {}

    async def check(self) -> Checked:
        """Test the account against the platform, and register our webhook where the platform allows it.

        Called by `manage.py channel test` and the admin, on an adapter of its own. Raises SendError.
        """
        return Checked(("There is nothing to test on this channel.",))

    async def aclose(self) -> None:
        """Close connections. Called once, when the adapter is no longer used."""
        return
