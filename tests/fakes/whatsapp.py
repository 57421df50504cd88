"""WhatsApp's Graph API over real HTTP: it checks tokens, limits and the 24 hours, and keeps what it sent."""

import hashlib
import hmac
import json
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer, Fault

NUMBER_ID, OTHER_NUMBER_ID = "106540352242922", "106540352242933"
TOKEN, APP_SECRET, VERIFY_TOKEN = "EAAtoken-of-a-system-user", "app-secret-0123456789", "verify-0123456789"
USER = "4915112345678"


class FakeWhatsApp(FakeServer):
    """A Graph API.

    sent: each accepted message. typing: ids of messages that were answered by an indicator. media: contents by id.
    uploads: contents of files that were uploaded. closed: users that have not written for 24 hours. hook: the webhook.
    refuses_buttons: how many messages with buttons come too soon after the one before.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.sent: list[dict[str, Any]] = []
        self.typing: list[str] = []
        self.media: dict[str, bytes] = {}
        self.uploads: list[bytes] = []
        self.closed: set[str] = set()
        self.hook: dict[str, str] = {}
        self.refuses_buttons = 0

    def texts(self) -> list[str]:
        return [shown_text(message) for message in self.sent]

    def refuse(self, fault: Fault) -> tuple[int, dict[str, str], bytes]:
        status, headers, _ = super().refuse(fault)
        code = {429: 130429, 503: 131016}.get(status, 131009 if status < 500 else None)
        return status, headers, _error(code, fault.description or "refused")

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        url = urlsplit(request.path)
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return 401, {}, _error(190, "Error validating access token")
        if url.path.startswith("/storage/"):
            content = self.media.get(url.path.rpartition("/")[2])
            return (404, {}, b"") if content is None else (200, {}, content)
        version, _, path = url.path.lstrip("/").partition("/")
        if version != "v25.0":
            return 400, {}, _error(2635, "You are calling a deprecated version")
        match request.method, path.split("/"):
            case "POST", [number, "messages"] if number in (NUMBER_ID, OTHER_NUMBER_ID):
                return self._message(json.loads(request.body))
            case "POST", [_, "media"]:
                self.uploads.append(request.body)
                return _success({"id": f"{5000 + len(self.uploads)}"})
            case "POST", [_, "subscriptions"]:
                self.hook = dict(parse_qsl(request.body.decode()))
                return _success({"success": True})
            case "GET", [number] if number == NUMBER_ID and parse_qs(url.query):
                return _success({"verified_name": "Komand", "display_phone_number": "+1 555-000-6789"})
            case "GET", [media] if media in self.media:
                digest = hashlib.sha256(self.media[media]).hexdigest()
                return _success({"url": f"{self.url}/storage/{media}", "sha256": digest})
        return 400, {}, _error(100, "Unsupported request")

    def _message(self, message: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        if message.get("messaging_product") != "whatsapp":
            return 400, {}, _error(100, "(#100) The parameter messaging_product is required.")
        if message.get("status") == "read":
            self.typing.append(message["message_id"])
            return _success({"success": True})
        if message.get("to", message.get("recipient")) in self.closed:
            return 400, {}, _error(131047, "Re-engagement message")
        if message["type"] == "interactive" and self.refuses_buttons:
            self.refuses_buttons -= 1
            return 400, {}, _error(131056, "(#131056) (Business Account, Consumer Account) pair rate limit hit")
        if problem := _problem(message):
            return 400, {}, _error(131009, problem)
        self.sent.append(message)
        return _success({"messages": [{"id": f"wamid.{len(self.sent)}"}]})


def _problem(message: dict[str, Any]) -> str:
    """Return why the parameters of a message are refused, or an empty text."""
    kind = message["type"]
    if kind == "text":
        body = message["text"]["body"]
        return "" if 1 <= len(body) <= 4096 else "text.body has an invalid length"
    if kind == "interactive":
        card = message["interactive"]
        replies = [button["reply"] for button in card["action"]["buttons"]]
        is_valid = 1 <= len(replies) <= 3 and 1 <= len(card["body"]["text"]) <= 1024
        fits = all(1 <= len(reply["title"]) <= 20 and 1 <= len(reply["id"]) <= 256 for reply in replies)
        return "" if is_valid and fits else "interactive has invalid buttons"
    return "" if kind in ("image", "document") and len(message[kind].get("caption", "")) <= 1024 else "invalid media"


def shown_text(message: dict[str, Any]) -> str:
    """Return the text that the person sees of a message."""
    content = message[message["type"]]
    return str(content.get("caption") or content["body"]["text"] if message["type"] != "text" else content["body"])


def buttons_of(message: dict[str, Any]) -> dict[str, str]:
    """Return the ids of a message's buttons by their titles."""
    replies = [button["reply"] for button in message["interactive"]["action"]["buttons"]]
    return {reply["title"]: reply["id"] for reply in replies}


def payload(*messages: dict[str, Any], number: str = NUMBER_ID, **more: Any) -> dict[str, Any]:
    """Return the body of a request with these messages."""
    metadata = {"display_phone_number": "15550006789", "phone_number_id": number}
    contacts = [{"profile": {"name": "Zoë"}, "wa_id": USER}]
    value = {"messaging_product": "whatsapp", "metadata": metadata, "contacts": contacts, "messages": list(messages)}
    change = {"value": {**value, **more}, "field": "messages"}
    return {"object": "whatsapp_business_account", "entry": [{"id": "10", "changes": [change]}]}


def message(number: int, text: str = "", *, sender: str = USER, **more: Any) -> dict[str, Any]:
    """Return a message, of text unless another type is given."""
    common = {"from": sender, "id": f"wamid.in{number}", "timestamp": "1780000000"}
    return {**common, **({"type": "text", "text": {"body": text}} if "type" not in more else {}), **more}


def signed_headers(body: bytes, secret: str = APP_SECRET) -> dict[str, str]:
    """Sign, independently of the code under test."""
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"content-type": "application/json", "x-hub-signature-256": f"sha256={digest}"}


def handshake(token: str = VERIFY_TOKEN) -> str:
    return urlencode({"hub.mode": "subscribe", "hub.verify_token": token, "hub.challenge": "1158201444"})


def _success(content: Any) -> tuple[int, dict[str, str], bytes]:
    return 200, {"content-type": "application/json"}, json.dumps(content).encode()


def _error(code: int | None, text: str) -> bytes:
    return json.dumps({"error": {"message": text, "type": "OAuthException", "code": code}}).encode()
