"""A channel without a platform, for tests and demonstrations: sent messages stay in this process's memory."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from sessions_app.platforms.base import Acknowledgement, ChannelAdapter, SendError, VerificationFailed, WebhookRequest
from sessions_app.platforms.messages import (
    Capabilities,
    ChannelEvent,
    ChannelMessage,
    Chat,
    Ignored,
    Outgoing,
    Rendered,
    Target,
)
from sessions_app.platforms.rendering.renderer import PlainText, render
from sessions_app.platforms.signatures import same_secret
from sessions_app.platforms.webhook_json import read_object

MAX_TEXT = 200
_DIALECT = PlainText()


@dataclass
class FakePlatform:
    """The simulated platform of one account.

    messages: by id.
    calls: name and text of each.
    faults: errors of the next calls, None for success.
    seconds: the duration of each call.
    """

    messages: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    references: list[Mapping[str, Any]] = field(default_factory=list)
    faults: deque[SendError | None] = field(default_factory=deque)
    seconds: float = 0.0


class Fake(ChannelAdapter):
    slug = "fake"
    name = "Fake"
    summary = "in memory, for tests"
    secret_fields: ClassVar[Mapping[str, str]] = {"token": "what callers send as x-fake-token"}
    required_secrets: ClassVar[Sequence[str]] = ("token",)
    methods: ClassVar[Sequence[str]] = ("POST", "GET")
    platforms: ClassVar[defaultdict[str, FakePlatform]] = defaultdict(FakePlatform)

    @property
    def platform(self) -> FakePlatform:
        return self.platforms[self.account.account_id]

    def verify(self, request: WebhookRequest, now: datetime) -> None:
        if not same_secret(request.header("x-fake-token"), self.account.secrets["token"]):
            raise VerificationFailed

    def parse(self, request: WebhookRequest, now: datetime) -> Sequence[ChannelEvent]:
        if request.method == "GET":
            return [Ignored("handshake")]
        body = read_object(request)
        if not isinstance(body.get("id"), str) or not isinstance(body.get("sender"), str):
            return [Ignored("odd_shape")]
        sender, chat = body["sender"], str(body.get("chat", body["sender"]))
        return [
            ChannelMessage(
                message_id=body["id"],
                sender_id=sender,
                sender_name=str(body.get("name", "")),
                text=str(body.get("text", "")),
                sent_at=datetime.fromtimestamp(0, UTC),
                chat=Chat(chat, "direct" if chat == sender else "group", str(body.get("thread", ""))),
                keys=(f"id:{body['id']}",),
                is_addressed=bool(body.get("addressed", True)),
                event_id=body["id"],
                reference=body.get("reference") or {},
            )
        ]

    def acknowledge(self, request: WebhookRequest, channel_events: Sequence[ChannelEvent]) -> Acknowledgement:
        """Answer a handshake with its own query."""
        return Acknowledgement(200, request.query, "text/plain") if request.method == "GET" else Acknowledgement()

    def capabilities(self, chat: Chat) -> Capabilities:
        return Capabilities(
            drafts="edit",
            draft_seconds=0.05,
            typing=True,
            max_text=MAX_TEXT,
            edit_sent=True,
            threads=True,
            groups=True,
            account_rate=1000.0,
        )

    def render(self, markdown: str, chat: Chat) -> tuple[Rendered, ...]:
        return render(markdown, _DIALECT, MAX_TEXT)

    async def send(self, message: Outgoing) -> str:
        await self._call("send", message.rendered.body)
        message_id = str(len(self.platform.messages) + 1)
        self.platform.messages[message_id] = message.rendered.body
        self.platform.references.append(message.target.reference)
        return message_id

    async def edit(self, message: Outgoing, message_id: str) -> None:
        await self._call("edit", message.rendered.body)
        self.platform.messages[message_id] = message.rendered.body

    async def typing(self, target: Target) -> None:
        await self._call("typing", target.chat.id)

    async def _call(self, what: str, text: str) -> None:
        self.platform.calls.append((what, text))
        await asyncio.sleep(self.platform.seconds)
        fault = self.platform.faults.popleft() if self.platform.faults else None
        if fault is not None:
            raise fault
