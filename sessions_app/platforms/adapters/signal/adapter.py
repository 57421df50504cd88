"""Signal by the HTTP daemon of signal-cli: events over a stream of our own, messages by JSON-RPC.

See https://github.com/AsamK/signal-cli, man page signal-cli-jsonrpc. The daemon has no authentication.
"""

import base64
import binascii
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

import httpx2

from audit_app.kernel.errors import InvalidInput
from sessions_app.platforms.account_settings import AccountSettings, Setting
from sessions_app.platforms.adapters.signal.dialect import SignalText, read_body
from sessions_app.platforms.adapters.signal.envelopes import Us, envelope_of, read_envelope
from sessions_app.platforms.base import (
    MIB,
    Checked,
    FetchError,
    SendCertainty,
    SendError,
    VerificationFailed,
    WebhookRequest,
    read_guide,
)
from sessions_app.platforms.http import retry_after_seconds
from sessions_app.platforms.json_api import JsonApi
from sessions_app.platforms.link import ConnectionLost, CredentialsRefused, Link, Received
from sessions_app.platforms.messages import Attachment, Capabilities, ChannelEvent, Chat, Outgoing, Rendered, Target
from sessions_app.platforms.rendering.renderer import render

MAX_TEXT = 2000  # bytes; clients drop longer ones
_NUMBER = re.compile(r"\+[1-9][0-9]{5,14}", re.ASCII)
_LARGEST_FILE, _LARGEST_EVENT = 50 * MIB, 8 * MIB
# Error codes of signal-cli's JSON-RPC.
_USER_ERROR, _UNTRUSTED, _RATE_LIMIT = -1, -4, -5
_FAILURES = {
    "UNREGISTERED_FAILURE": (SendCertainty.REFUSED, "the person has no Signal account any more"),
    "IDENTITY_FAILURE": (SendCertainty.REFUSED, "the safety number has changed; trust it with `signal-cli trust`"),
    "NETWORK_FAILURE": (SendCertainty.NOT_SENT, "no connection to Signal"),
}
_DIALECT = SignalText()


class Signal(JsonApi):
    slug = "signal"
    name = "Signal"
    platform = "signal-cli"
    summary = "a number by the daemon of signal-cli"
    setup_guide = read_guide(__file__)
    methods: ClassVar[Sequence[str]] = ()  # everything comes over the connection
    can_listen = True
    config_fields: ClassVar[Mapping[str, Setting]] = {
        "url": Setting("address of the daemon, such as http://127.0.0.1:8080", "url", is_required=True),
        "number": Setting("our number, such as +4915112345678", is_required=True),
        "account_uuid": Setting("our account id, to recognise mentions; set by `channel test`"),
        "read_all_groups": Setting("true: answer every message of a group, not only those for us", "flag"),
    }

    def __init__(self, account: AccountSettings, **options: Any) -> None:
        super().__init__(account, **options)
        config = account.config
        if not _NUMBER.fullmatch(config["number"]):
            raise InvalidInput("Signal: number begins with + and the country code.", code="bad_account")
        self._us = Us(config["number"], str(config.get("account_uuid", "")), bool(config.get("read_all_groups")))
        self._url = str(config["url"]).rstrip("/")

    def verify(self, request: WebhookRequest, now: datetime) -> None:
        raise VerificationFailed

    def parse(self, request: WebhookRequest, now: datetime) -> Sequence[ChannelEvent]:
        return []

    @property
    def listens(self) -> bool:
        return True

    async def listen(self, link: Link) -> None:
        """Receive events. Each is delivered before the next is read; the daemon has no cursor to resume at."""
        timeout = httpx2.Timeout(10.0, read=self.silent_seconds)
        options: Any = {"params": {"account": self._us.number}, "timeout": timeout}
        try:
            async with self.client.stream("GET", f"{self._url}/api/v1/events", **options) as response:
                self._check_stream(response)
                link.heartbeat()
                async for data in _events(response, link):
                    await self._deliver(data, link)
        except httpx2.HTTPError as error:
            raise ConnectionLost(f"The stream of the daemon broke ({type(error).__name__}).") from None
        raise ConnectionLost("The daemon ended the stream.")

    def _check_stream(self, response: httpx2.Response) -> None:
        if response.status_code in (400, 404):
            problem = f"The daemon does not know the number {self._us.number}: register or link it with signal-cli."
            raise CredentialsRefused(problem)
        if not response.is_success:
            waits = retry_after_seconds(response.headers, self.clock()) or 0.0
            raise ConnectionLost(f"The daemon answered with status {response.status_code}.", retry_after_seconds=waits)

    async def _deliver(self, data: str, link: Link) -> None:
        try:
            found = envelope_of(json.loads(data))
        except (ValueError, RecursionError):
            found = None
        if found is None or found[1] not in ("", self._us.number):
            return
        events = read_envelope(found[0], self._us)
        await link.deliver([Received(event, data.encode()) for event in events], str(found[0].get("timestamp") or "1"))

    def capabilities(self, chat: Chat) -> Capabilities:
        return Capabilities(
            typing=True,
            typing_seconds=12.0,
            attachments_in=True,
            attachments_out=True,
            file_bytes=_LARGEST_FILE,
            file_in_bytes=_LARGEST_FILE,
            max_text=MAX_TEXT,
            edit_sent=True,
            groups=True,
            dialect="text with styles",
            chat_seconds=1.0,
            account_rate=1.0,
        )

    def render(self, markdown: str, chat: Chat) -> tuple[Rendered, ...]:
        return render(markdown, _DIALECT, MAX_TEXT, takes_files=True)

    async def send(self, message: Outgoing) -> str:
        fields = self._text(message)
        reference, chat = message.target.reference, message.target.chat
        if chat.type != "direct" and not message.part and reference.get("timestamp"):
            fields |= {"quoteTimestamp": reference["timestamp"], "quoteAuthor": reference["author"]}
        if file := message.file:
            content = base64.b64encode(file.content).decode()
            name = re.sub(r"[;,\s]", "_", file.name)  # these end the name
            fields["attachments"] = [f"data:{file.media_type};filename={name};base64,{content}"]
        return await self._send(fields)

    async def edit(self, message: Outgoing, message_id: str) -> None:
        await self._send({**self._text(message), "editTimestamp": int(message_id)})

    async def typing(self, target: Target) -> None:
        await self._call("sendTyping", _place(target.chat))

    async def fetch(self, file: Attachment, most_bytes: int) -> AsyncGenerator[bytes, None]:
        kind, _, rest = file.id.partition(":")
        chat_id, _, file_id = rest.partition(":")
        fields = {"id": file_id, **({"recipient": chat_id} if kind == "direct" else {"groupId": chat_id})}
        try:
            found = await self._call("getAttachment", fields, most_bytes=_LARGEST_FILE * 4 // 3 + MIB)
            content = base64.b64decode(found["data"], validate=True)
        except SendError as error:
            raise FetchError(error.message, is_final=error.certainty is SendCertainty.REFUSED) from None
        except (KeyError, TypeError, binascii.Error):
            raise FetchError("the daemon returned no content", is_final=True) from None
        if len(content) > most_bytes:
            raise FetchError(f"it has more than {most_bytes // MIB} MB", is_final=True)
        yield content

    async def check(self) -> Checked:
        number = self._us.number
        found = await self._call("getUserStatus", {"recipient": [number]})
        mine = next((one for one in found if isinstance(one, dict) and one.get("uuid")), None)
        if mine is None:
            raise SendError(f"{number} is not registered at Signal.", SendCertainty.REFUSED)
        return Checked((f"The daemon sends and receives for {number}.",), {"account_uuid": str(mine["uuid"])})

    @staticmethod
    def _text(message: Outgoing) -> dict[str, Any]:
        text, styles = read_body(message.rendered.body)
        return {**_place(message.target.chat), "message": text, **({"textStyle": styles} if styles else {})}

    async def _send(self, fields: Mapping[str, Any]) -> str:
        result = await self._call("send", fields)
        try:
            outcomes, sent_at = [one["type"] for one in result.get("results") or ()], str(int(result["timestamp"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self.unreadable() from None
        if not outcomes or "SUCCESS" in outcomes:  # in a group, others may have got it
            return sent_at
        certainty, why = _FAILURES.get(outcomes[0], (SendCertainty.REFUSED, outcomes[0]))
        raise SendError(f"Signal: {why}."[:300], certainty)

    async def _call(self, method: str, fields: Mapping[str, Any], **options: Any) -> Any:
        """Call a method of the daemon for our number. Raises SendError."""
        call = {"jsonrpc": "2.0", "id": "1", "method": method, "params": {"account": self._us.number, **fields}}
        return await self.call_json("POST", f"{self._url}/api/v1/rpc", json=call, **options)

    def result_of(self, response: httpx2.Response, answer: Any) -> Any:
        if not response.is_success:
            raise self.refusal(response, f"status {response.status_code}")
        try:
            if "error" not in answer:
                return answer["result"]
            code, text = int(answer["error"]["code"]), str(answer["error"].get("message") or "")
        except (ValueError, KeyError, TypeError):
            raise self.unreadable() from None
        raise _problem(code, text)


async def _events(response: httpx2.Response, link: Link) -> AsyncIterator[str]:
    """Yield the data of the events. Each line is a heartbeat: an idle daemon sends a comment every 15 seconds."""
    data: list[str] = []
    size = 0
    async for line in response.aiter_lines():
        link.heartbeat()
        if line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))
            size += len(line)
            if size > _LARGEST_EVENT:
                raise ConnectionLost("The daemon sent an event that is too large.")
        elif not line and data:
            yield "\n".join(data)
            data, size = [], 0


def _place(chat: Chat) -> dict[str, Any]:
    return {"recipient": [chat.id]} if chat.type == "direct" else {"groupId": chat.id}


def _problem(code: int, text: str) -> SendError:
    """Return the error of a call that the daemon refused."""
    if code == _RATE_LIMIT:  # only a person can lift it, by a captcha; further tries make it worse
        problem = f"Signal asks for a captcha before it takes more: see `signal-cli submitRateLimitChallenge`. {text}"
        return SendError(problem[:300], SendCertainty.REFUSED, ends_account=True)
    is_final = code in (_USER_ERROR, _UNTRUSTED) or code <= -32000
    return SendError(f"Signal: {text} ({code})"[:300], SendCertainty.REFUSED if is_final else SendCertainty.UNKNOWN)
