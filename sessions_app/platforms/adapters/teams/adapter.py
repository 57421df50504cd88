"""Microsoft Teams by the Bot Framework: activities come to the webhook, messages go to the service address in them.

See https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-api-reference.
"""

import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import quote

import httpx2

from audit_app.kernel.errors import InvalidInput
from sessions_app.platforms.account_settings import AccountSettings, Setting
from sessions_app.platforms.adapters.teams.activities import OF_BOT, Rules, conversation_id, read_activity
from sessions_app.platforms.adapters.teams.streams import Streams
from sessions_app.platforms.adapters.teams.tokens import Expected, Keys, is_proven
from sessions_app.platforms.base import (
    MIB,
    Acknowledgement,
    Checked,
    FetchError,
    NotReadable,
    SendCertainty,
    SendError,
    VerificationFailed,
    WebhookRequest,
    WrongMediaType,
    read_guide,
)
from sessions_app.platforms.http import download, open_client, open_guarded_client, post
from sessions_app.platforms.json_api import JsonApi, as_object
from sessions_app.platforms.messages import (
    Attachment,
    ButtonPress,
    Capabilities,
    ChannelEvent,
    Chat,
    Outgoing,
    Rendered,
    Target,
)
from sessions_app.platforms.rendering.renderer import render
from sessions_app.platforms.rendering.signed_text import SignedText
from sessions_app.platforms.webhook_json import read_object

LOGIN, ISSUER = "https://login.microsoftonline.com", "https://api.botframework.com"
KEYS = "https://login.botframework.com/v1/.well-known/keys"
MAX_TEXT = 20_000
_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_CARD = "application/vnd.microsoft.card.adaptive"
_OUTCOME = "application/vnd.microsoft.activity.message"
_FENCE = re.compile(r"^```\n(.*?)\n```$", re.DOTALL | re.MULTILINE)
_BEFORE_END = timedelta(minutes=5)
_known_keys: dict[str, Keys] = {}


class TeamsMarkdown(SignedText):
    """The Markdown that Teams shows in plain messages: no headings, rules or tables."""

    format_signs: ClassVar[Mapping[str, str]] = {"bold": "**", "italic": "*", "strike": "~~", "code": "`"}
    literal = r"\\\g<sign>"
    fence = ("```\n", "\n```")


_DIALECT = TeamsMarkdown()


class Teams(JsonApi):
    slug = "teams"
    shows_presses = True
    name = "Teams"
    summary = "Microsoft Teams by the Bot Framework"
    setup_guide = read_guide(__file__)
    follows_threads = True
    config_fields: ClassVar[Mapping[str, Setting]] = {
        "app_id": Setting("the application (client) id of the bot", is_required=True),
        "tenant_id": Setting("the directory (tenant) id of the bot", is_required=True),
        "tenants": Setting("ids of tenants whose people may write; default: the bot's own", "ids"),
        "read_all_groups": Setting("true: answer every message of a group that Teams sends us", "flag"),
        "drafts": Setting("false: no streamed answers in one-to-one chats", "flag"),
        "login_url": Setting(f"another server than {LOGIN}, such as that of a government cloud", "url"),
        "keys_url": Setting(f"another address of public keys than {KEYS}", "url"),
        "issuer": Setting(f"another issuer than {ISSUER}"),
    }
    secret_fields: ClassVar[Mapping[str, str]] = {"app_password": "the value of a client secret of the bot"}
    required_secrets: ClassVar[Sequence[str]] = ("app_password",)

    def __init__(self, account: AccountSettings, **options: Any) -> None:
        super().__init__(account, **options)
        config = account.config
        for name in ("app_id", "tenant_id"):
            if not _ID.fullmatch(config[name]):
                raise InvalidInput(f"Teams: {name} is not an id such as 12345678-….", code="bad_account")
        tenants = frozenset(map(str, config.get("tenants") or [config["tenant_id"]]))
        self._rules = Rules(tenants, bool(config.get("read_all_groups")), str(config["app_id"]))
        self._expected = Expected(str(config.get("issuer") or ISSUER), config["app_id"])
        url = str(config.get("keys_url") or KEYS)
        self._keys = _known_keys.setdefault(url, Keys(url))
        self._token, self._token_ends = "", self.clock()
        self._streams = Streams()
        self._guarded: httpx2.AsyncClient | None = None

    def verify(self, request: WebhookRequest, now: datetime) -> None:
        scheme, _, token = request.header("authorization").partition(" ")
        try:
            activity = read_object(request)
        except (NotReadable, WrongMediaType):  # its claims cannot be compared
            raise VerificationFailed from None
        if scheme.lower() != "bearer" or not is_proven(token, self._keys, self._expected, activity, now):
            raise VerificationFailed

    async def refresh(self, request: WebhookRequest) -> bool:
        client = open_client()
        try:
            return await self._keys.fetch(client, self.clock())
        finally:
            await client.aclose()

    def parse(self, request: WebhookRequest, now: datetime) -> Sequence[ChannelEvent]:
        return [read_activity(read_object(request), self._rules, now)]

    def acknowledge(self, request: WebhookRequest, channel_events: Sequence[ChannelEvent]) -> Acknowledgement:
        """Return an empty response; to a pressed button, the text that Teams shows beside it."""
        is_press = any(isinstance(event, ButtonPress) for event in channel_events)
        if is_press and b'"invoke"' in request.body:
            return Acknowledgement(200, {"statusCode": 200, "type": _OUTCOME, "value": "Received."})
        return Acknowledgement()

    def capabilities(self, chat: Chat) -> Capabilities:
        streams = chat.type == "direct" and self.account.config.get("drafts", True)
        return Capabilities(
            drafts="native" if streams else "none",
            draft_seconds=1.5,
            typing=True,
            typing_seconds=3.0,
            buttons=True,
            button_bytes=256,
            max_buttons=6,
            attachments_in=True,
            file_in_bytes=50 * MIB,
            max_text=MAX_TEXT,
            text_unit="utf16",
            edit_sent=True,
            threads=True,
            groups=True,
            proactive="where the person wrote before",
            dialect="Markdown of Teams",
            chat_seconds=1.0,
            account_rate=40.0,
        )

    def render(self, markdown: str, chat: Chat) -> tuple[Rendered, ...]:
        return render(markdown, _DIALECT, MAX_TEXT)

    async def send(self, message: Outgoing) -> str:
        fields = message_activity(message)
        stream = self._streams.take(message.run_id) if message.kind in ("answer", "failure") else None
        if stream is None:
            return await self._post(message.target, fields)
        try:
            await self._post(message.target, {**fields, **stream.final()})
        except SendError as error:
            if error.certainty is not SendCertainty.REFUSED or error.ends_account:
                raise
            # The stream has ended, or the text is another one: replace what it shows.
            await self._request("PUT", message.target, stream.id, {**fields, "id": stream.id})
        return stream.id

    async def edit(self, message: Outgoing, message_id: str) -> None:
        await self._request("PUT", message.target, message_id, {**message_activity(message), "id": message_id})

    async def draft(self, message: Outgoing, draft_id: int) -> None:
        stream = self._streams.of_run(message.run_id)
        fields = stream.next_update(message.rendered.body)
        if fields is None:
            return
        try:
            shown_id = await self._post(message.target, {**_place(message.target), **fields})
            stream.id = stream.id or shown_id
        except SendError as error:
            stream.is_closed = error.certainty is SendCertainty.REFUSED
            raise

    async def typing(self, target: Target) -> None:
        await self._post(target, {**_place(target), "type": "typing"})

    async def fetch(self, file: Attachment, most_bytes: int) -> AsyncGenerator[bytes, None]:
        if not file.id.startswith(OF_BOT):  # an address of SharePoint, which contains its own proof
            self._guarded = self._guarded or open_guarded_client(self.account.reachable)
            pieces = download(self._guarded, file.url or "", most_bytes, follow_redirects=True)
        else:
            try:
                headers = {"authorization": f"Bearer {await self._access_token()}"}
            except SendError as error:
                raise FetchError(error.message, is_final=False) from None
            pieces = download(self.client, file.id.removeprefix(OF_BOT), most_bytes, headers=headers)
        async for piece in pieces:
            yield piece

    async def check(self) -> Checked:
        await self._access_token()
        await self._keys.fetch(self.client, self.clock())
        url = self.account.public_url
        lines = [f"Microsoft accepts the secret of the bot {self.account.config['app_id']}."]
        if url.startswith("https://"):
            lines.append(f"Its messaging endpoint in Azure must be {url}.")
        else:
            lines.append("Teams cannot reach us: KOMAND_PUBLIC_URL must be an https:// address.")
        return Checked(tuple(lines))

    async def aclose(self) -> None:
        await super().aclose()
        if self._guarded:
            await self._guarded.aclose()

    async def _post(self, target: Target, activity: Mapping[str, Any]) -> str:
        return str((await self._request("POST", target, "", activity)).get("id") or "")

    async def _request(self, method: str, target: Target, activity_id: str, activity: Mapping[str, Any]) -> Any:
        service_url = target.reference.get("serviceUrl")
        if not service_url:
            raise SendError("Teams: this person has not written to the bot yet.", SendCertainty.REFUSED)
        chat = quote(conversation_id(target.chat), safe="")
        url = f"{service_url}/v3/conversations/{chat}/activities"
        if activity_id:
            url += f"/{quote(activity_id, safe='')}"
        headers = {"authorization": f"Bearer {await self._access_token()}"}
        return await self.call_json(method, url, empty={}, json=activity, headers=headers)

    def refusal_of(self, response: httpx2.Response, answer: Mapping[str, Any]) -> SendError:
        status, text = response.status_code, as_object(answer.get("error")).get("message")
        if status == 401:  # the token has ended early: the next one is fetched first
            self._token = ""
        certainty = SendCertainty.NOT_SENT if status == 401 else None
        return self.refusal(response, f"{text or 'the message was refused'} ({status})", certainty)

    async def _access_token(self) -> str:
        """Return a token for the Bot Framework, kept until shortly before it ends. Raises SendError."""
        if self._token and self.clock() < self._token_ends:
            return self._token
        config = self.account.config
        fields = {"grant_type": "client_credentials", "scope": f"{self._expected.issuer}/.default"}
        secret = {"client_id": config["app_id"], "client_secret": self.account.secrets["app_password"]}
        url = f"{str(config.get('login_url') or LOGIN).rstrip('/')}/{config['tenant_id']}/oauth2/v2.0/token"
        try:
            response, body = await post(self.client, url, data={**fields, **secret})
            answer = json.loads(body) if response.is_success else {}
            self._token = str(answer["access_token"]) if answer else ""
            self._token_ends = self.clock() + timedelta(seconds=float(answer.get("expires_in", 0))) - _BEFORE_END
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SendError("Microsoft's token cannot be parsed.", SendCertainty.NOT_SENT) from None
        except SendError as error:
            error.certainty = SendCertainty.NOT_SENT  # of the message
            raise
        if self._token:
            return self._token
        is_refused = response.status_code in (400, 401)
        raise SendError(
            "Microsoft refuses the app_password: create a new client secret."
            if is_refused
            else "Microsoft gave no token.",
            SendCertainty.REFUSED if is_refused else SendCertainty.NOT_SENT,
            ends_account=is_refused,
        )


def _place(target: Target) -> dict[str, Any]:
    reference = target.reference
    return {
        "from": {"id": reference.get("botId", "")},
        "recipient": {"id": reference.get("userId", "")},
        "conversation": {"id": conversation_id(target.chat)},
    }


def message_activity(message: Outgoing) -> dict[str, Any]:
    """Return the activity of a message. An edited message without buttons loses its card.

    With buttons, the text stands in the card alone: Teams splits an activity of a text and a card into two messages,
    and returns no id of either.
    """
    place = {"type": "message", **_place(message.target)}
    if not message.buttons:
        return {**place, "text": message.rendered.body, "textFormat": "markdown"}
    styles = {"success": "positive", "danger": "destructive"}
    actions = [
        {
            "type": "Action.Execute",
            "title": button.label,
            "verb": "press",
            "data": {"actionId": button.action_id},
            **({"style": styles[button.style]} if button.style in styles else {}),
        }
        for button in message.buttons
    ]
    body = [*_card_blocks(message.rendered.body)]
    card = {"type": "AdaptiveCard", "version": "1.4", "body": body, "actions": actions}
    return {**place, "summary": message.rendered.text, "attachments": [{"contentType": _CARD, "content": card}]}


def _card_blocks(body: str) -> Iterator[dict[str, Any]]:
    """Yield the blocks of a card that show a text. Text blocks know no code, and text runs show theirs literally."""
    for number, piece in enumerate(_FENCE.split(body)):
        if number % 2:
            run = {"type": "TextRun", "text": piece, "fontType": "Monospace"}
            yield {"type": "RichTextBlock", "inlines": [run]}
        elif piece.strip():
            yield {"type": "TextBlock", "text": piece.strip(), "wrap": True}
