"""SMS and MMS by Twilio: messages arrive at the webhook or by polling, and are sent by the REST API.

See https://www.twilio.com/docs/messaging.
"""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import urlsplit

import httpx2

from audit_app.kernel.errors import InvalidInput
from sessions_app.platforms.account_settings import AccountSettings, Setting
from sessions_app.platforms.adapters.sms.form import is_signed, read_fields
from sessions_app.platforms.adapters.sms.message_list import poll
from sessions_app.platforms.adapters.sms.segments import SmsText, limit_of
from sessions_app.platforms.base import (
    MIB,
    Acknowledgement,
    Checked,
    FetchError,
    SendCertainty,
    SendError,
    VerificationFailed,
    WebhookRequest,
    read_guide,
)
from sessions_app.platforms.http import download, open_client
from sessions_app.platforms.json_api import JsonApi
from sessions_app.platforms.link import Link
from sessions_app.platforms.messages import Attachment, Capabilities, ChannelEvent, Chat, Ignored, Outgoing, Rendered
from sessions_app.platforms.rendering.renderer import render
from sessions_app.platforms.webhook_json import read_form

API = "https://api.twilio.com"
MAX_TEXT = 1600
_EMPTY_TWIML = '<?xml version="1.0" encoding="UTF-8"?><Response/>'
_ACCOUNT_SID = re.compile(r"AC[0-9a-f]{32}", re.ASCII)
_SERVICE_SID = re.compile(r"MG[0-9a-f]{32}", re.ASCII)
_NUMBER = re.compile(r"\+[1-9][0-9]{5,14}", re.ASCII)
_SEGMENTS, _MOST_PARTS, _POLL_SECONDS, _RATE = 3, 5, 10.0, 1.0
_PICTURES = ("image/jpeg", "image/png", "image/gif")  # Twilio scales them to what carriers take
_DIALECT = SmsText()


class Sms(JsonApi):
    slug = "sms"
    name = "Sms"
    platform = "Twilio"
    summary = "SMS and MMS by Twilio"
    setup_guide = read_guide(__file__)
    can_listen = True
    config_fields: ClassVar[Mapping[str, Setting]] = {
        "account_sid": Setting("the account SID of Twilio's console, AC…", is_required=True),
        "number": Setting("our number, such as +15005550006", is_required=True),
        "messaging_service": Setting("the SID of a messaging service that sends for us, MG…"),
        "receive": Setting(
            "webhook, or polling, without a public address; default: polling if KOMAND_PUBLIC_URL is not https://",
            "choice",
            choices=("webhook", "polling"),
        ),
        "poll_seconds": Setting("seconds between two requests for new messages; default 10, at most 60", "number"),
        "segments": Setting("longest message in segments of 153 characters, at most 10; default 3", "number"),
        "most_parts": Setting("most messages of one answer, and a link to all of it; default 5", "number"),
        "mms": Setting("true: pictures are sent as MMS, which numbers of the USA and Canada can", "flag"),
        "rate": Setting("messages a second that the number may send; default 1", "number"),
        "api_url": Setting(f"another address than {API}", "url"),
    }
    secret_fields: ClassVar[Mapping[str, str]] = {
        "auth_token": "the auth token of the account; it also verifies that requests come from Twilio",
        "previous_auth_token": "the old token, still valid for requests while it is being replaced",
    }
    required_secrets: ClassVar[Sequence[str]] = ("auth_token",)

    def __init__(self, account: AccountSettings, **options: Any) -> None:
        super().__init__(account, **options)
        config = account.config
        checks = (("account_sid", _ACCOUNT_SID), ("number", _NUMBER), ("messaging_service", _SERVICE_SID))
        for name, pattern in checks:
            if config.get(name) and not pattern.fullmatch(config[name]):
                raise InvalidInput(f"Sms: {name} is not valid: {self.config_fields[name].help}.", code="bad_account")
        self._numbers = frozenset({config["number"]})
        self._origin = str(config.get("api_url") or API).rstrip("/")
        self._base = f"{self._origin}/2010-04-01/Accounts/{config['account_sid']}"

    def _number(self, name: str, default: float) -> float:
        return float(self.account.config.get(name) or default)

    def verify(self, request: WebhookRequest, now: datetime) -> None:
        tokens = [self.account.secrets.get(name, "") for name in ("auth_token", "previous_auth_token")]
        if not is_signed(request, self.account.public_url, tokens):
            raise VerificationFailed

    def parse(self, request: WebhookRequest, now: datetime) -> Sequence[ChannelEvent]:
        fields = read_form(request)
        if fields.get("AccountSid") != self.account.config["account_sid"]:
            return [Ignored("other_account")]
        return [read_fields(fields, self._numbers, now)]

    def acknowledge(self, request: WebhookRequest, channel_events: Sequence[ChannelEvent]) -> Acknowledgement:
        return Acknowledgement(200, _EMPTY_TWIML, "text/xml")  # a plain text would be sent to the person

    @property
    def listens(self) -> bool:
        default = "webhook" if self.account.public_url.startswith("https://") else "polling"
        return bool(self.account.config.get("receive", default) == "polling")

    async def listen(self, link: Link) -> None:
        seconds = self._number("poll_seconds", _POLL_SECONDS)
        await poll(self._get, link, self._numbers, self.clock, seconds)

    def capabilities(self, chat: Chat) -> Capabilities:
        # Twilio fetches what it sends.
        sends_files = bool(self.account.config.get("mms")) and self.account.public_url.startswith("https://")
        return Capabilities(
            attachments_out=sends_files,
            file_bytes=5 * MIB if sends_files else 0,
            file_types=_PICTURES,
            attachments_in=True,
            file_in_bytes=5 * MIB,
            max_text=MAX_TEXT,
            text_unit="utf16",
            most_parts=max(int(self._number("most_parts", _MOST_PARTS)), 1),
            proactive="with the consent of the person",
            dialect="plain text, GSM alphabet if possible",
            chat_seconds=1.0,
            account_rate=self._number("rate", _RATE),
        )

    def render(self, markdown: str, chat: Chat) -> tuple[Rendered, ...]:
        segments = min(max(int(self._number("segments", _SEGMENTS)), 1), 10)
        return render(markdown, _DIALECT, limit_of(segments))

    async def send(self, message: Outgoing) -> str:
        if message.kind == "press":
            return ""
        config, url = self.account.config, self.account.public_url
        if message.file and not message.file.url:
            raise SendError("Twilio cannot fetch the file: there is no public address.", SendCertainty.REFUSED)
        content = {"Body": message.rendered.text, "MediaUrl": message.file.url if message.file else ""}
        fields = {"To": message.target.chat.id, **{name: text for name, text in content.items() if text}}
        service = config.get("messaging_service")
        fields |= {"MessagingServiceSid": service} if service else {"From": config["number"]}
        if url.startswith("https://"):
            fields["StatusCallback"] = url
        return str((await self.call_json("POST", f"{self._base}/Messages.json", data=fields))["sid"])

    async def fetch(self, file: Attachment, most_bytes: int) -> AsyncGenerator[bytes, None]:
        url = httpx2.URL(self._origin).join(file.url or "")
        if (url.scheme, url.netloc) != (httpx2.URL(self._origin).scheme, httpx2.URL(self._origin).netloc):
            raise FetchError("its address does not belong to Twilio", is_final=True)
        # Twilio redirects to its storage. The client sends the credentials to the first host alone.
        async for piece in download(self.client, str(url), most_bytes, follow_redirects=True):
            yield piece

    async def check(self) -> Checked:
        account = await self._get(".json")
        lines = [f"The Twilio account is {account['friendly_name']} ({account['status']})."]
        number, url = self.account.config["number"], self.account.public_url
        found = (await self._get("/IncomingPhoneNumbers.json", params={"PhoneNumber": number}))[
            "incoming_phone_numbers"
        ]
        if not found:
            lines.append(f"{number} is not a number of this account: it can receive nothing here.")
        elif self.listens:
            lines.append("Messages are fetched from Twilio's list; no webhook is needed.")
        elif not url.startswith("https://"):
            lines.append("The webhook is not set: KOMAND_PUBLIC_URL must be an https:// address.")
        elif self.account.config.get("messaging_service"):
            lines.append(f"Enter {url} as the request URL of incoming messages in the messaging service.")
        else:
            path = f"{self._base}/IncomingPhoneNumbers/{found[0]['sid']}.json"
            await self.call_json("POST", path, data={"SmsUrl": url, "SmsMethod": "POST"})
            lines.append(f"Twilio sends messages to {url}.")
        return Checked(tuple(lines))

    def open_client(self) -> httpx2.AsyncClient:
        client = open_client()
        client.auth = (self.account.config["account_sid"], self.account.secrets["auth_token"])
        return client

    async def _get(self, path: str, **options: Any) -> Any:
        """Return the JSON of a path below the account, or of a whole path, as Twilio returns for the next page."""
        url = f"{self._origin}{path}" if urlsplit(path).path.startswith("/2010-04-01/") else f"{self._base}{path}"
        return await self.call_json("GET", url, **options)

    def refusal_of(self, response: httpx2.Response, answer: Mapping[str, Any]) -> SendError:
        status = response.status_code
        problem = f"{answer.get('message') or f'status {status}'} ({answer.get('code', status)})"
        return self.refusal(response, problem, slows_account=status == 429, ends_account=status == 401)
