"""The contract of a channel adapter: verify → parse → capabilities → send, edit, draft, typing. One object an account.

An adapter knows its platform and nothing of Komand: no models, no settings, no clock of its own where time decides.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, ClassVar

from audit_app.kernel.errors import AppError, Forbidden, InvalidInput
from sessions_app.channels.messages import Attachment, Capabilities, ChannelEvent, Chat, Outgoing, Rendered, Target
from tools_app.policy.globs import PatternError
from tools_app.policy.patterns import check_pattern

MIB = 1024 * 1024


@dataclass(frozen=True)
class Setting:
    """What an account may be configured with. kind: text | flag | number | ids (a list) | patterns (a list, of tool
    calls) | url; help: for operators."""

    help: str
    kind: str = "text"
    is_required: bool = False

    def problem(self, value: Any) -> str:
        """What is wrong with a value, to be read after the setting's name; empty when it is right."""
        match self.kind:
            case "flag":
                return "" if isinstance(value, bool) else "must be true or false"
            case "number":
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                return "" if is_number and 0 <= value < 10**6 else "must be a number, not below 0"
            case "ids":
                is_ids = isinstance(value, list) and all(type(item) in (str, int) for item in value)
                return "" if is_ids else "must be a list of ids"
            case "patterns":
                return _pattern_problem(value)
            case "url":
                is_url = isinstance(value, str) and value.startswith(("https://", "http://"))
                return "" if is_url else "must be an address such as https://example.org"
            case _:
                return "" if isinstance(value, str) else "must be text"


def _pattern_problem(value: Any) -> str:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return "must be a list of patterns"
    try:
        for item in value:
            check_pattern(item)
    except PatternError as error:  # with a rule that nobody can read, every call would be refused
        return f"must be a list of patterns: {error}"
    return ""


# What the configuration of every account may say.
SHARED_SETTINGS = {
    "approvers": Setting("ids of senders who may decide requests for approval from their chats", "ids"),
    "readonly": Setting("true: its sessions use no tool that may change something, whatever the agent may do", "flag"),
    "denied_tools": Setting("patterns of tool calls that its sessions never make, whatever the agent may", "patterns"),
}


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class AccountSettings:
    """What an adapter is made from. public_url: where the platform reaches our webhook of it, or empty."""

    account_id: str
    config: Mapping[str, Any]
    secrets: Mapping[str, str]
    public_url: str = ""
    reachable: frozenset[str] = frozenset()  # `host:port` pairs that callbacks may reach although they are not public


@dataclass(frozen=True)
class WebhookRequest:
    """A request as it came in. headers: lower-case names, with every value each was given; query: as in the URL."""

    body: bytes
    headers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    method: str = "POST"
    query: str = ""

    def header(self, name: str) -> str:
        """The value of a header that was sent exactly once; empty otherwise, since two values prove nothing."""
        values = self.headers.get(name, ())
        return values[0] if len(values) == 1 else ""

    @property
    def is_json(self) -> bool:
        return self.header("content-type").partition(";")[0].strip().lower() == "application/json"


@dataclass(frozen=True)
class Acknowledgement:
    """What the platform is answered. body: JSON, or a text of that content type."""

    status: int = 200
    body: Mapping[str, Any] | str | None = None
    content_type: str = "application/json"


@dataclass(frozen=True)
class Checked:
    """lines: for the operator; learned: configuration that the platform told, to be kept."""

    lines: tuple[str, ...]
    learned: Mapping[str, Any] = field(default_factory=dict)


class VerificationFailed(Forbidden):
    """The request does not prove where it comes from."""

    code = "not_proven"


class NotReadable(InvalidInput):
    """The body cannot be read."""

    code = "not_readable"


class WrongMediaType(InvalidInput):
    """The body must be JSON."""

    code = "wrong_media_type"


class WrongShape(InvalidInput):
    """The body has not the fields that are expected."""

    code = "wrong_shape"


class Unsupported(InvalidInput):
    """The channel cannot do this. Its capabilities say so."""

    code = "unsupported"


class SendCertainty(Enum):
    """What is known of a message that could not be sent in order."""

    NOT_SENT = "it was not sent, another try may do"
    UNKNOWN = "it may have been sent"
    REFUSED = "it was not sent, and another try would not change that"


class SendError(AppError):
    """A message was not sent, or may not have been.

    retry_after_seconds: how long the platform wants to be left alone, by the chat or, with slows_account, by all of
    the account; moved_to: the id that the chat has now; ends_account: nothing more can be sent from this account.
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
    """A file could not be fetched. is_final: another try would not change that."""

    code = "not_fetched"

    def __init__(self, message: str, *, is_final: bool) -> None:
        super().__init__(message)
        self.is_final = is_final


class ChannelAdapter(ABC):
    """One account of one channel. `verify` and `parse` are pure; what sends is asynchronous and belongs to one loop.

    To add a channel, see docs/adding-a-channel.md.
    """

    slug: ClassVar[str]
    """As in URLs and commands: `telegram`."""
    name: ClassVar[str]
    """As in session ids: `Telegram`."""
    summary: ClassVar[str]
    """One line for the docs: what it speaks."""
    methods: ClassVar[Sequence[str]] = ("POST",)
    """Of the requests that the platform makes; with GET where it first asks whether we are there."""
    max_body_bytes: ClassVar[int] = MIB
    config_fields: ClassVar[Mapping[str, Setting]] = {}
    secret_fields: ClassVar[Mapping[str, str]] = {}
    required_secrets: ClassVar[Sequence[str]] = ()

    def __init__(self, account: AccountSettings, *, clock: Callable[[], datetime] = utc_now) -> None:
        """Raises InvalidInput when the configuration or a secret is missing or unusable."""
        self.account = account
        self.clock = clock
        if problems := [*self._problems()]:
            raise InvalidInput(f"{self.name}: {', '.join(problems)}.", code="bad_account")

    def _problems(self) -> Iterator[str]:
        config, secrets = self.account.config, self.account.secrets
        known = {**SHARED_SETTINGS, **self.config_fields}
        required = [name for name, setting in known.items() if setting.is_required and not config.get(name)]
        for name in (*required, *(name for name in self.required_secrets if not secrets.get(name))):
            yield f"{name} is missing"
        for name in (*sorted({*config} - {*known}), *sorted({*secrets} - {*self.secret_fields})):
            yield f"{name} is not known"
        for name in sorted({*config} & {*known} - {*required}):
            if problem := known[name].problem(config[name]):
                yield f"{name} {problem}"

    @classmethod
    def make_secrets(cls) -> dict[str, str]:
        """Secrets that are made by us when an account is added without them."""
        return {}

    # What comes in.

    @abstractmethod
    def verify(self, request: WebhookRequest, now: datetime) -> None:
        """Prove from the raw bytes that the platform sent it. Raises NotProven, whatever is wrong with the proof."""

    async def refresh(self, request: WebhookRequest) -> bool:
        """Fetch what `verify` may have lacked, such as the platform's newest public keys; whether it is worth another
        try. Called for each request that is not proven, whoever sent it: it limits itself how often it fetches, and how
        long. Raises nothing."""
        return False

    @abstractmethod
    def parse(self, request: WebhookRequest, now: datetime) -> Sequence[ChannelEvent]:
        """What happened, from a verified request. An odd shape is `Ignored`, unless the sender can read our answer.

        Raises WrongMediaType, NotReadable (no JSON, no UTF-8), WrongShape.
        """

    def acknowledge(self, request: WebhookRequest, channel_events: Sequence[ChannelEvent]) -> Acknowledgement:
        """What the platform is answered when everything was taken in."""
        return Acknowledgement()

    # What goes out.

    @abstractmethod
    def capabilities(self, chat: Chat) -> Capabilities:
        """What can be done in that chat."""

    @abstractmethod
    def render(self, markdown: str, chat: Chat) -> tuple[Rendered, ...]:
        """The text in the channel's dialect, cut into parts that it takes; at least one."""

    @abstractmethod
    async def send(self, message: Outgoing) -> str:
        """Send it once and return the platform's id of it, perhaps empty. Raises SendError."""

    async def edit(self, message: Outgoing, message_id: str) -> None:
        """Replace a message that was sent. Doing it twice does no harm. Raises SendError, Unsupported."""
        raise Unsupported(f"{self.name} cannot edit what was sent.")

    async def draft(self, message: Outgoing, draft_id: int) -> None:
        """Show a preview of an answer under way, in place of its last one. Raises SendError, Unsupported."""
        raise Unsupported(f"{self.name} has no previews.")

    async def typing(self, target: Target) -> None:
        """Show that an answer is being written. Raises SendError, Unsupported."""
        raise Unsupported(f"{self.name} does not show typing.")

    def fetch(self, file: Attachment, most_bytes: int) -> AsyncGenerator[bytes, None]:
        """A file that came with a message, piece by piece; never more than that. Raises FetchError, Unsupported."""
        raise Unsupported(f"{self.name} brings no files.")

    async def check(self) -> Checked:
        """Try the account against the platform, registering our webhook where that is possible. Raises SendError."""
        return Checked(("There is nothing to try on this channel.",))

    async def aclose(self) -> None:
        """Close connections."""
        return
