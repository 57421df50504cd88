"""Twilio's REST API over real HTTP: it checks credentials and limits as Twilio does, and keeps what it sent."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer, Fault

ACCOUNT_SID, TOKEN = "AC" + "0" * 32, "0123456789abcdef0123456789abcdef"
NUMBER = "+15005550006"


class FakeTwilio(FakeServer):
    """A REST API.

    sent: the fields of each accepted message. inbound: the list of messages. media: contents by id.
    hooks: what was set for our number. opted_out: numbers that take no messages.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.sent: list[dict[str, str]] = []
        self.inbound: list[dict[str, Any]] = []
        self.media: dict[str, bytes] = {}
        self.hooks: dict[str, str] = {}
        self.opted_out: set[str] = set()
        self.valid_token = TOKEN

    def texts(self) -> list[str]:
        return [message["Body"] for message in self.sent if "Body" in message]

    def queue(self, number: int, text: str, *, sender: str = "+15550001111", media: tuple[str, ...] = ()) -> None:
        """Have the list contain an inbound message, with media of these ids."""
        item = {
            "sid": sid(number),
            "from": sender,
            "to": NUMBER,
            "body": text,
            "direction": "inbound",
            "num_media": str(len(media)),
            "date_created": format_datetime(datetime.now(UTC)),
            "media": media,
        }
        self.inbound.insert(0, item)

    def refuse(self, fault: Fault) -> tuple[int, dict[str, str], bytes]:
        status, headers, _ = super().refuse(fault)
        return status, headers, json.dumps({"code": 20429 if status == 429 else 20001, "message": "refused"}).encode()

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        given = base64.b64encode(f"{ACCOUNT_SID}:{self.valid_token}".encode()).decode()
        if request.headers.get("authorization") != f"Basic {given}":
            return self._failure(401, 20003, "Authenticate")
        url = urlsplit(request.path)
        path = url.path.removeprefix(f"/2010-04-01/Accounts/{ACCOUNT_SID}")
        if path == url.path:
            return self._failure(404, 20404, "The requested resource was not found")
        if "/Media/" in path:
            content = self.media.get(path.rpartition("/")[2])
            return (404, {}, b"") if content is None else (200, {"content-type": "image/png"}, content)
        fields = dict(parse_qsl(request.body.decode(), keep_blank_values=True))
        if path == "/Messages.json" and request.method == "POST":
            return self._send(fields)
        return self._read(path, request.method, fields, parse_qs(url.query))

    def _send(self, fields: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if not fields.get("Body") and not fields.get("MediaUrl"):
            return self._failure(400, 21602, "Message body is required")
        if not fields.get("MediaUrl", "https://").startswith("https://"):
            return self._failure(400, 21620, "Invalid media URL(s)")
        if len(fields.get("Body", "").encode("utf-16-le")) // 2 > 1600:
            return self._failure(400, 21617, "The concatenated message body exceeds the 1600 character limit")
        if fields.get("From", NUMBER) != NUMBER or not fields["To"].startswith("+"):
            return self._failure(400, 21211, "Invalid 'To' or 'From' phone number")
        if fields["To"] in self.opted_out:
            return self._failure(400, 21610, "Attempt to send to unsubscribed recipient")
        self.sent.append(fields)
        return self._success({"sid": sid(9000 + len(self.sent)), "status": "queued"}, 201)

    def _read(
        self, path: str, method: str, fields: dict[str, str], query: dict[str, list[str]]
    ) -> tuple[int, dict[str, str], bytes]:
        if path == ".json":
            return self._success({"friendly_name": "Test", "status": "active"})
        if path == "/Messages.json":
            first, size = int(query.get("Page", ["0"])[0]), int(query["PageSize"][0])
            page = self.inbound[first * size : (first + 1) * size]
            following = urlencode({"PageSize": size, "Page": first + 1})
            has_more = len(self.inbound) > (first + 1) * size
            uri = f"/2010-04-01/Accounts/{ACCOUNT_SID}/Messages.json?{following}" if has_more else None
            return self._success({"messages": page, "next_page_uri": uri})
        if path.endswith("/Media.json"):
            item = next(item for item in self.inbound if item["sid"] == path.split("/")[2])
            base = f"/2010-04-01/Accounts/{ACCOUNT_SID}/Messages/{item['sid']}/Media"
            listed = [{"uri": f"{base}/{one}.json", "content_type": "image/png"} for one in item["media"]]
            return self._success({"media_list": listed})
        if path == "/IncomingPhoneNumbers.json":
            is_ours = unquote(query["PhoneNumber"][0]) == NUMBER
            return self._success({"incoming_phone_numbers": [{"sid": "PN" + "1" * 32}] if is_ours else []})
        if path.startswith("/IncomingPhoneNumbers/PN") and method == "POST":
            self.hooks = fields
            return self._success({"sid": "PN" + "1" * 32})
        return self._failure(404, 20404, "The requested resource was not found")

    @staticmethod
    def _success(content: Any, status: int = 200) -> tuple[int, dict[str, str], bytes]:
        return status, {"content-type": "application/json"}, json.dumps(content).encode()

    @staticmethod
    def _failure(status: int, code: int, text: str) -> tuple[int, dict[str, str], bytes]:
        content = {"code": code, "message": text, "status": status}
        return status, {"content-type": "application/json"}, json.dumps(content).encode()


def sid(number: int) -> str:
    return f"SM{number:032x}"


def message_form(number: int, text: str, *, sender: str = "+15550001111", **fields: str) -> dict[str, str]:
    """Return the form of a received message."""
    common = {"ToCountry": "US", "SmsMessageSid": sid(number), "NumMedia": "0", "SmsStatus": "received", "Body": text}
    ids = {"MessageSid": sid(number), "AccountSid": ACCOUNT_SID, "From": sender, "To": NUMBER, "NumSegments": "1"}
    return {**common, **ids, **fields}


def signature_of(url: str, body: bytes, token: str = TOKEN) -> str:
    """Sign, independently of the code under test."""
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    content = url + "".join(name + value for name in sorted(fields) for value in sorted({*fields[name]}))
    return base64.b64encode(hmac.new(token.encode(), content.encode(), hashlib.sha1).digest()).decode()
