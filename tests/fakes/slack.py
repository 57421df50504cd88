"""A fake of Slack's Web API and Socket Mode over real HTTP and WebSocket, which checks tokens and limits."""

import asyncio
import hashlib
import hmac
import json
import time
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl

from websockets.asyncio.server import ServerConnection

from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer, Fault
from tests.fakes.socket_server import SocketServer

BOT_TOKEN, APP_TOKEN, SIGNING_SECRET = "xoxb-1-secret", "xapp-1-secret", "signing-secret-0123"
APP_ID, TEAM_ID, BOT_USER = "A1", "T1", "UBOT"
_JSON = {"content-type": "application/json"}
_BLOCKS_MOST, _UPDATE_MOST, _STREAM_MOST = 12_000, 4_000, 12_000
_TASK_STATES = ("pending", "in_progress", "complete", "error")


def signed_headers(body: bytes, *, at: float | None = None, secret: str = SIGNING_SECRET) -> dict[str, str]:
    """Return the headers of a request of Slack."""
    timestamp = str(int(time.time() if at is None else at))
    digest = hmac.new(secret.encode(), b"v0:" + timestamp.encode() + b":" + body, hashlib.sha256).hexdigest()
    return {
        "content-type": "application/json",
        "x-slack-request-timestamp": timestamp,
        "x-slack-signature": f"v0={digest}",
    }


def event_payload(number: int, event: dict[str, Any]) -> dict[str, Any]:
    """Return the payload of an event."""
    authorizations = [{"team_id": TEAM_ID, "user_id": BOT_USER, "is_bot": True}]
    outer = {"api_app_id": APP_ID, "team_id": TEAM_ID, "event_id": f"Ev{number}", "authorizations": authorizations}
    return {"type": "event_callback", **outer, "event": event}


def message_payload(
    number: int, text: str, *, user: str = "501", channel: str = "D501", **extra: Any
) -> dict[str, Any]:
    """Return the payload of a message, by default to the app itself."""
    kind = "im" if channel.startswith("D") else "channel"
    event = {"type": "message", "user": user, "channel": channel, "channel_type": kind, "text": text}
    return event_payload(number, {**event, "ts": f"{1_780_000_000 + number}.000100", **extra})


def press_payload(number: int, value: str, ts: str, *, channel: str = "D501", url: str = "") -> dict[str, Any]:
    """Return the payload of a pressed button."""
    return {
        "type": "block_actions",
        "api_app_id": APP_ID,
        "team": {"id": TEAM_ID},
        "user": {"id": "501", "name": "zoe"},
        "trigger_id": f"trigger-{number}",
        "response_url": url,
        "container": {"message_ts": ts, "channel_id": channel},
        "actions": [{"action_id": "button-0", "value": value, "action_ts": f"{number}.0"}],
    }


class FakeSlack(FakeServer):
    """Slack.

    calls: the methods that were called, with their fields. messages: the Markdown that is shown, by channel and ts.
    streaming: the ts of messages whose streams are open. tasks: the states that messages show, by ts and title. users:
    display names by id. no_streams: the workspace cannot stream.
    outside: conversations that the app is not in.
    buttons: label and value, by channel and ts. files: contents to download, by path; uploads: those that were sent.
    ephemerals: replies to presses. envelopes: payloads that are not acknowledged yet. is_silent: the socket accepts
    connections and says nothing. app_token: the valid one. farewell: the reason with which it ends one connection.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.messages: dict[str, dict[str, str]] = {}
        self.threads: dict[str, str] = {}
        self.streaming: set[str] = set()
        self.tasks: dict[str, dict[str, str]] = {}
        self.users: dict[str, str] = {}
        self.no_streams = False
        self.outside: set[str] = set()
        self.buttons: dict[tuple[str, str], dict[str, str]] = {}
        self.files: dict[str, bytes] = {}
        self.uploads: dict[str, bytes] = {}
        self.shared: list[dict[str, Any]] = []
        self.ephemerals: list[str] = []
        self.envelopes: dict[str, dict[str, Any]] = {}
        self.app_token = APP_TOKEN
        self.is_silent = False
        self.farewell = ""
        self.socket = SocketServer(self._serve_socket)

    def __enter__(self) -> "FakeSlack":
        self.socket.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.socket.__exit__(*error)

    def shown(self, channel: str = "D501") -> list[str]:
        """Return the texts that a channel shows, oldest first."""
        return list(self.messages.get(channel, {}).values())

    def queue(self, *payloads: dict[str, Any], kind: str = "events_api") -> None:
        """Have Socket Mode deliver payloads until they are acknowledged."""
        for payload in payloads:
            envelope = f"envelope-{len(self.envelopes)}-{time.monotonic_ns()}"
            self.envelopes[envelope] = {"envelope_id": envelope, "type": kind, "payload": payload}

    def refuse(self, fault: Fault) -> tuple[int, dict[str, str], bytes]:
        if fault.status == 429:
            return 429, {**_JSON, "retry-after": str(fault.retry_after)}, b'{"ok": false, "error": "ratelimited"}'
        if fault.status == 400:
            return self._failure("channel_not_found")
        return fault.status, {"content-type": "text/html"}, b"<html>"

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        place, _, name = request.path.lstrip("/").partition("/")
        if place == "respond":
            self.ephemerals.append(json.loads(request.body)["text"])
            return 200, {}, b"ok"
        if place == "upload":
            self.uploads[name] = request.body
            return 200, {}, b"OK"
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if bearer != (self.app_token if name == "apps.connections.open" else BOT_TOKEN):
            return (302, {"location": "/login"}, b"") if place == "files" else self._failure("invalid_auth")
        if place == "files":
            content = self.files.get(name)
            return (404, {}, b"") if content is None else (200, {"content-type": "application/octet-stream"}, content)
        is_json = request.headers.get("content-type", "").startswith("application/json")
        fields = json.loads(request.body) if is_json else dict(parse_qsl(request.body.decode()))
        self.calls.append((name, fields))
        handler = getattr(self, "_" + name.replace(".", "_"), None)
        return handler(fields) if handler else self._failure("unknown_method")

    def _auth_test(self, fields: dict[str, Any]) -> Any:
        return self._success(user="komand", team="Team", team_id=TEAM_ID, user_id=BOT_USER)

    def _apps_connections_open(self, fields: dict[str, Any]) -> Any:
        return self._success(url=self.socket.url)

    def _assistant_threads_setStatus(self, fields: dict[str, Any]) -> Any:  # noqa: N802 - as Slack spells it
        return self._success()

    def _chat_postMessage(self, fields: dict[str, Any]) -> Any:  # noqa: N802
        if fields["channel"] in self.outside:
            return self._failure("channel_not_found")
        ts = f"{1_790_000_000 + len(self.calls)}.000200"
        self.threads[ts] = fields.get("thread_ts", "")
        return self._show(fields, ts)

    def _chat_update(self, fields: dict[str, Any]) -> Any:
        if fields["ts"] not in self.messages.get(fields["channel"], {}):
            return self._failure("message_not_found")
        if fields["ts"] in self.streaming:
            return self._failure("streaming_state_conflict")
        if len(fields["text"]) > _UPDATE_MOST:
            return self._failure("msg_too_long")
        return self._show(fields, fields["ts"])

    def _users_info(self, fields: dict[str, Any]) -> Any:
        if fields["user"] not in self.users:
            return self._failure("user_not_found")
        profile = {"display_name": self.users[fields["user"]], "real_name": "Somebody"}
        return self._success(user={"id": fields["user"], "profile": profile})

    def _chat_startStream(self, fields: dict[str, Any]) -> Any:  # noqa: N802
        if self.no_streams:
            return self._failure("unknown_method")
        if not fields.get("thread_ts"):
            return self._failure("invalid_thread_ts")
        if not (fields.get("recipient_user_id") and fields.get("recipient_team_id")):
            return self._failure("missing_recipient_user_id")
        ts = f"{1_790_000_000 + len(self.calls)}.000300"
        self.threads[ts] = fields["thread_ts"]
        self.messages.setdefault(fields["channel"], {})[ts] = ""
        self.streaming.add(ts)
        return self._stream(fields, ts)

    def _chat_appendStream(self, fields: dict[str, Any]) -> Any:  # noqa: N802
        if not (fields.get("markdown_text") or fields.get("chunks")):
            return self._failure("no_text")
        return self._stream(fields, fields["ts"])

    def _chat_stopStream(self, fields: dict[str, Any]) -> Any:  # noqa: N802
        answer = self._stream(fields, fields["ts"])
        self.streaming.discard(fields["ts"])
        return answer

    def _stream(self, fields: dict[str, Any], ts: str) -> Any:
        """Append the text and the tasks of a request to a streamed message."""
        if ts not in self.streaming:
            return self._failure("message_not_in_streaming_state")
        if "markdown_text" in fields and "chunks" in fields:
            return self._failure("invalid_arguments")
        chunks = fields.get("chunks") or [{"type": "markdown_text", "text": fields.get("markdown_text", "")}]
        for chunk in chunks:
            if chunk["type"] == "task_update" and chunk["status"] in _TASK_STATES:
                self.tasks.setdefault(ts, {})[chunk["title"]] = chunk["status"]
            elif chunk["type"] == "markdown_text" and len(chunk["text"]) <= _STREAM_MOST:
                self.messages[fields["channel"]][ts] += chunk["text"]
            else:
                return self._failure("invalid_chunks")
        return self._success(ts=ts, channel=fields["channel"])

    def _show(self, fields: dict[str, Any], ts: str) -> Any:
        blocks = fields.get("blocks", [])
        markdown = [block["text"] for block in blocks if block["type"] == "markdown"]
        elements = [element for block in blocks if block["type"] == "actions" for element in block["elements"]]
        if sum(map(len, markdown)) > _BLOCKS_MOST:
            return self._failure("msg_blocks_too_long")
        if any(not 1 <= len(one["text"]["text"]) <= 75 or len(one["value"]) > 2000 for one in elements):
            return self._failure("invalid_blocks")
        if len({one["action_id"] for one in elements}) != len(elements):
            return self._failure("invalid_blocks")
        if not (markdown or fields.get("text")):
            return self._failure("no_text")
        self.messages.setdefault(fields["channel"], {})[ts] = "".join(markdown) or fields["text"]
        self.buttons[fields["channel"], ts] = {one["text"]["text"]: one["value"] for one in elements}
        return self._success(ts=ts, channel=fields["channel"])

    def _files_getUploadURLExternal(self, fields: dict[str, Any]) -> Any:  # noqa: N802
        if not fields["filename"] or int(fields["length"]) < 1:
            return self._failure("invalid_arguments")
        return self._success(upload_url=f"{self.url}/upload/F{len(self.calls)}", file_id=f"F{len(self.calls)}")

    def _files_completeUploadExternal(self, fields: dict[str, Any]) -> Any:  # noqa: N802
        if any(file["id"] not in self.uploads for file in fields["files"]):
            return self._failure("file_not_found")
        self.shared.append(fields)
        return self._success(files=fields["files"])

    @staticmethod
    def _success(**fields: Any) -> tuple[int, dict[str, str], bytes]:
        return 200, _JSON, json.dumps({"ok": True, **fields}).encode()

    @staticmethod
    def _failure(code: str) -> tuple[int, dict[str, str], bytes]:
        return 200, _JSON, json.dumps({"ok": False, "error": code}).encode()

    async def _serve_socket(self, connection: ServerConnection) -> None:
        """Send each envelope once over this connection, and forget those that are acknowledged."""
        if self.is_silent:
            await connection.wait_closed()
            return
        await connection.send(json.dumps({"type": "hello"}))
        sent: set[str] = set()
        while True:
            if self.farewell:
                reason, self.farewell = self.farewell, ""
                await connection.send(json.dumps({"type": "disconnect", "reason": reason}))
                await connection.wait_closed()
                return
            for envelope, content in list(self.envelopes.items()):
                if envelope not in sent:
                    sent.add(envelope)
                    await connection.send(json.dumps(content))
            with suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    acknowledged = json.loads(await connection.recv())["envelope_id"]
                    self.envelopes.pop(acknowledged, None)
