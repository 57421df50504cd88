"""Microsoft's side of Teams over real HTTP: tokens, public keys, and the service that takes activities.

Requests to the bot are signed with a key of its own, by the rules of the Bot Framework.
"""

import json
import time
from functools import cache
from typing import Any
from urllib.parse import parse_qs, unquote

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer, Fault

APP_ID, TENANT_ID = "11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"
PASSWORD, ACCESS_TOKEN = "client-secret-value", "access-token-of-the-bot"
ISSUER, KEY_ID = "https://api.botframework.com", "key-1"
BOT, USER, CHAT = f"28:{APP_ID}", "29:user-zoe", "a:personal-chat"
_LARGEST = 80_000


@cache
def signing_key(name: str = KEY_ID) -> rsa.RSAPrivateKey:
    """Return a key by its id: each has its own."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class FakeTeams(FakeServer):
    """The service.

    activities: text of each shown message by its id. posted: all activities. typing: count of indicators.
    streams: updates of each stream. key_ids: of the published keys. key_requests, token_requests: how often.
    files: contents by path. ended: streams take no more updates. valid_password: of the bot.
    has_leaked: a request for a token contained the token of the bot.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.activities: dict[str, str] = {}
        self.posted: list[dict[str, Any]] = []
        self.streams: dict[str, list[str]] = {}
        self.key_ids = [KEY_ID]
        self.key_requests = self.token_requests = self.typing = 0
        self.files: dict[str, bytes] = {}
        self.ended = self.has_leaked = False
        self.valid_password = PASSWORD

    @property
    def config(self) -> dict[str, Any]:
        urls = {"login_url": self.url, "keys_url": f"{self.url}/keys"}
        return {"app_id": APP_ID, "tenant_id": TENANT_ID, **urls}

    def texts(self) -> list[str]:
        return list(self.activities.values())

    def refuse(self, fault: Fault) -> tuple[int, dict[str, str], bytes]:
        status, headers, _ = super().refuse(fault)
        return status, headers, _error("Refused", fault.description or "refused")

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        if request.path == "/keys":
            self.key_requests += 1
            return _json({"keys": [_public(name) for name in self.key_ids]})
        if request.path == f"/{TENANT_ID}/oauth2/v2.0/token":
            self.token_requests += 1
            given = parse_qs(request.body.decode())
            self.has_leaked = self.has_leaked or "authorization" in request.headers
            if given.get("client_secret") != [self.valid_password] or given["scope"] != [f"{ISSUER}/.default"]:
                return 401, {}, json.dumps({"error": "invalid_client"}).encode()
            return _json({"access_token": ACCESS_TOKEN, "expires_in": 3600})
        if request.headers.get("authorization") != f"Bearer {ACCESS_TOKEN}":
            content = self.files.get(request.path) if request.path.startswith("/public/") else None
            return (200, {}, content) if content is not None else (401, {}, _error("Unauthorized", "no token"))
        if request.method == "GET":
            content = self.files.get(request.path)
            return (404, {}, b"") if content is None else (200, {}, content)
        _, service, version, conversations, chat, activities, *rest = request.path.split("/")
        if (service, version, conversations, activities) != ("teams", "v3", "conversations", "activities"):
            return 404, {}, _error("NotFound", "no such path")
        return self._activity(json.loads(request.body), unquote(chat), unquote(rest[0]) if rest else "")

    def _activity(self, activity: dict[str, Any], chat: str, activity_id: str) -> tuple[int, dict[str, str], bytes]:
        if activity["conversation"]["id"] != chat:
            return 400, {}, _error("BadSyntax", "another conversation")
        if len(json.dumps(activity).encode("utf-16-le")) > 100 * 1024:
            return 413, {}, _error("MessageSizeTooBig", "too big")
        info = activity.get("channelData") or {}
        if info.get("streamType"):
            return self._stream(activity, info, chat)
        if activity["type"] == "typing":
            self.typing += 1
            return _json({"id": "t"}, 201)
        if activity_id and activity_id not in self.activities and activity_id not in self.streams:
            return 404, {}, _error("ActivityNotFoundInConversation", "not found")
        shown_id = activity_id or f"act-{len(self.posted) + 1}"
        self.posted.append(activity)
        cards = [card["content"] for card in activity.get("attachments", ())]
        self.activities[shown_id] = activity["text"] if "text" in activity else _texts_of(cards)
        if cards and activity.get("text"):  # two messages are shown, and the id of neither is returned
            return 202, {}, b""
        return _json({"id": shown_id}, 201)

    def _stream(self, activity: dict[str, Any], info: dict[str, Any], chat: str) -> tuple[int, dict[str, str], bytes]:
        if not chat.startswith("a:"):
            return 403, {}, _error("ContentStreamNotAllowed", "only in one-to-one chats")
        stream_id = info.get("streamId") or f"stream-{len(self.streams) + 1}"
        shown = self.streams.setdefault(stream_id, [])
        if self.ended:
            return 403, {}, _error("ContentStreamNotAllowed", "exceeded streaming time")
        text = activity["text"]
        if shown and not text.startswith(shown[-1]):
            return 403, {}, _error("ContentStreamNotAllowed", "does not extend the last text")
        if info["streamType"] == "final":
            self.posted.append(activity)
            self.activities[stream_id] = text
            return _json({"id": stream_id}, 201)
        if activity["type"] != "typing" or info["streamSequence"] != len(shown) + 1:
            return 202, {}, _error("ContentStreamSequenceOrderPreConditionFailed", "wrong order")
        shown.append(text)
        return _json({"id": stream_id}, 201)


def activity(number: int, text: str = "hello", *, service: str = "https://smba.example", **more: Any) -> dict[str, Any]:
    """Return a message of a person in a one-to-one chat."""
    return {
        "type": "message",
        "id": f"{1_780_000_000_000 + number}",
        "timestamp": "2026-11-21T11:59:58.1234567Z",
        "channelId": "msteams",
        "serviceUrl": f"{service}/teams/",
        "from": {"id": USER, "name": "Zoë", "aadObjectId": "dir-1"},
        "conversation": {"id": CHAT, "conversationType": "personal", "tenantId": TENANT_ID},
        "recipient": {"id": BOT, "name": "Komand"},
        "text": text,
        "channelData": {"tenant": {"id": TENANT_ID}},
        **more,
    }


def headers_for(body: bytes, *, at: float | None = None, key: str = KEY_ID, **claims: Any) -> dict[str, str]:
    """Sign a request as the Bot Framework does. claims: replace those of a valid token."""
    try:
        service_url = json.loads(body)["serviceUrl"]
    except (ValueError, KeyError, TypeError, RecursionError):
        service_url = "https://smba.example/teams/"
    now = int(time.time() if at is None else at)
    valid = {"iss": ISSUER, "aud": APP_ID, "serviceurl": service_url, "nbf": now - 60, "exp": now + 3600}
    content = {name: value for name, value in {**valid, **claims}.items() if value is not None}
    token = jwt.encode(content, signing_key(key), algorithm="RS256", headers={"kid": key})
    return {"content-type": "application/json; charset=utf-8", "authorization": f"Bearer {token}"}


def _texts_of(cards: list[dict[str, Any]]) -> str:
    """Return the texts that cards show, in paragraphs."""
    blocks = [block for card in cards for block in card["body"]]
    return "\n\n".join(block.get("text") or "".join(run["text"] for run in block["inlines"]) for block in blocks)


def _public(name: str) -> dict[str, Any]:
    key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(signing_key(name).public_key()))
    return {**key, "kid": name, "use": "sig", "endorsements": ["msteams", "webchat"]}


def _json(content: Any, status: int = 200) -> tuple[int, dict[str, str], bytes]:
    return status, {"content-type": "application/json"}, json.dumps(content).encode()


def _error(code: str, text: str) -> bytes:
    return json.dumps({"error": {"code": code, "message": text}}).encode()
