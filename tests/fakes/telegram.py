"""Telegram's Bot API over real HTTP: it records the calls of bots and checks them as Telegram does."""

import asyncio
import json
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from tests.fakes.http_protocol import HttpRequest, Response
from tests.fakes.http_server import FakeServer, Fault

TOKEN = "123456789:AAaaBBbbCCccDDddEEeeFFffGGgg"
BOT_ID, BOT_NAME = 123456789, "komand_test_bot"
_JSON = {"content-type": "application/json"}
_TAGS = {"b", "strong", "i", "em", "u", "s", "del", "code", "pre", "a", "blockquote"}


@dataclass
class Call:
    """One call as received. at: monotonic seconds."""

    method: str
    fields: dict[str, Any]
    at: float = field(default_factory=time.monotonic)


class FakeTelegram(FakeServer):
    """A Bot API server.

    calls: all that were accepted. messages: the texts that are shown, by chat and message id. keyboards: their buttons.
    toasts: the replies to presses. files: contents by file id. downloads: the paths that were fetched.
    moved: groups that have another id now. updates: those that no request has confirmed. is_half_open: requests for
    updates get no answer. valid_token: of the bot.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls: list[Call] = []
        self.messages: dict[int, dict[int, str]] = {}
        self.keyboards: dict[tuple[int, int], list[list[dict[str, str]]]] = {}
        self.toasts: dict[str, str] = {}
        self.webhook: dict[str, Any] = {}
        self.files: dict[str, bytes] = {}
        self.downloads: list[str] = []
        self.moved: dict[int, int] = {}
        self.updates: list[dict[str, Any]] = []
        self.polls: list[int] = []
        self.is_half_open = False
        self.valid_token = TOKEN
        self._polling = 0
        self._changing = threading.Lock()  # updates are queued by the test's thread, and removed by the server's

    def buttons(self, chat_id: int) -> dict[str, str]:
        """Return the buttons that the chat shows: the label and the data of each."""
        shown = [rows for (chat, _), rows in self.keyboards.items() if chat == chat_id]
        return {key["text"]: key["callback_data"] for rows in shown for row in rows for key in row}

    def chat(self, chat_id: int) -> list[str]:
        """Return the texts that the chat shows, oldest first."""
        return list(self.messages.get(chat_id, {}).values())

    def methods(self, *but: str) -> list[str]:
        return [call.method for call in self.calls if call.method not in but]

    def throttle(self, seconds: int, only: str = "") -> None:
        self.faults.append(Fault("status", 429, retry_after=seconds, only=only, description="Too Many Requests"))

    def refuse(self, fault: Fault) -> tuple[int, dict[str, str], bytes]:
        return self._failure(fault.status, fault.description, retry_after=fault.retry_after)

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        if request.path.startswith("/file/"):
            return self._download(request.path)
        _, prefix, method = request.path.split("/", 2)
        if prefix != f"bot{self.valid_token}":
            return self._failure(401, "Unauthorized")
        is_json = request.headers.get("content-type", "").startswith("application/json")
        fields = json.loads(request.body) if is_json else {"multipart": request.body.decode(errors="replace")}
        if fields.get("parse_mode") == "HTML" and (problem := _html_problem(fields["text"])):
            return self._failure(400, f"Bad Request: can't parse entities: {problem}")
        if problem := _keyboard_problem(fields.get("reply_markup")):
            return self._failure(400, f"Bad Request: {problem}")
        if new_id := self.moved.get(fields.get("chat_id", 0)):
            told = "Bad Request: group chat was upgraded to a supergroup chat"
            return self._failure(400, told, migrate_to_chat_id=new_id)
        self.calls.append(Call(method, fields))
        handler = getattr(self, f"_{method}", None)
        return handler(fields) if handler else self._success(True)

    async def _handle(self, request: HttpRequest, response: Response) -> None:
        """Hold a request for updates until there are some, its time is over, or another one comes."""
        if request.path.endswith("/getUpdates"):
            fields = json.loads(request.body)
            self._polling = number = self._polling + 1
            self.polls.append(fields["offset"])
            deadline = time.monotonic() + fields["timeout"]
            with self._changing:
                self.updates = [update for update in self.updates if update["update_id"] >= fields["offset"]]
            while self.is_half_open or (
                not self.updates and not self.faults and number == self._polling and time.monotonic() < deadline
            ):
                await asyncio.sleep(0.01)
            if number != self._polling:
                told = (
                    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
                )
                response.whole(*self._failure(409, told))
                return
        await super()._handle(request, response)

    def queue(self, updates: Iterable[dict[str, Any]]) -> None:
        """Have a bot without a webhook receive these updates."""
        with self._changing:
            self.updates = [*self.updates, *updates]

    def _getUpdates(self, fields: dict[str, Any]) -> Any:  # noqa: N802
        if self.webhook.get("url"):
            told = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete it first"
            return self._failure(409, told)
        return self._success(self.updates[: fields["limit"]])

    def _deleteWebhook(self, fields: dict[str, Any]) -> Any:  # noqa: N802
        self.webhook = {}
        return self._success(True)

    def _download(self, path: str) -> tuple[int, dict[str, str], bytes]:
        self.downloads.append(path)
        content = self.files.get(path.removeprefix(f"/file/bot{TOKEN}/documents/"))
        return (404, {}, b"") if content is None else (200, {"content-type": "application/octet-stream"}, content)

    def _getFile(self, fields: dict[str, Any]) -> Any:  # noqa: N802
        if fields["file_id"] not in self.files:
            return self._failure(400, "Bad Request: invalid file_id")
        return self._success({"file_id": fields["file_id"], "file_path": f"documents/{fields['file_id']}"})

    def _getMe(self, fields: dict[str, Any]) -> Any:  # noqa: N802 - as Telegram spells it
        return self._success({"id": BOT_ID, "is_bot": True, "first_name": "Komand", "username": BOT_NAME})

    def _setWebhook(self, fields: dict[str, Any]) -> Any:  # noqa: N802
        self.webhook = fields
        return self._success(True)

    def _getWebhookInfo(self, fields: dict[str, Any]) -> Any:  # noqa: N802
        return self._success({"url": self.webhook.get("url", ""), "pending_update_count": 0})

    def _sendMessage(self, fields: dict[str, Any]) -> Any:  # noqa: N802
        if not fields["text"].strip():
            return self._failure(400, "Bad Request: message text is empty")
        chat = self.messages.setdefault(fields["chat_id"], {})
        number = len(self.calls) + 1000
        chat[number] = fields["text"]
        self._show_keyboard(fields, number)
        return self._success({"message_id": number, "chat": {"id": fields["chat_id"]}})

    def _sendDocument(self, fields: dict[str, Any]) -> Any:  # noqa: N802
        return self._success({"message_id": len(self.calls) + 1000})

    def _editMessageText(self, fields: dict[str, Any]) -> Any:  # noqa: N802
        chat = self.messages.get(fields["chat_id"], {})
        if fields["message_id"] not in chat:
            return self._failure(400, "Bad Request: message to edit not found")
        if chat[fields["message_id"]] == fields["text"]:
            return self._failure(400, "Bad Request: message is not modified")
        chat[fields["message_id"]] = fields["text"]
        self._show_keyboard(fields, fields["message_id"])
        return self._success({"message_id": fields["message_id"]})

    def _show_keyboard(self, fields: dict[str, Any], number: int) -> None:
        """Replace the buttons of a message: one that is edited without any loses them."""
        key = (fields["chat_id"], number)
        self.keyboards.pop(key, None)
        if markup := fields.get("reply_markup"):
            self.keyboards[key] = markup["inline_keyboard"]

    def _answerCallbackQuery(self, fields: dict[str, Any]) -> Any:  # noqa: N802
        if len(fields.get("text", "")) > 200:
            return self._failure(400, "Bad Request: MESSAGE_TOO_LONG")
        self.toasts[fields["callback_query_id"]] = fields.get("text", "")
        return self._success(True)

    @staticmethod
    def _success(result: Any) -> tuple[int, dict[str, str], bytes]:
        return 200, _JSON, json.dumps({"ok": True, "result": result}).encode()

    @staticmethod
    def _failure(code: int, description: str, **parameters: int) -> tuple[int, dict[str, str], bytes]:
        body: dict[str, Any] = {"ok": False, "error_code": code, "description": description}
        if any(parameters.values()):
            body["parameters"] = parameters
        return code, _JSON, json.dumps(body).encode()


def _keyboard_problem(markup: Any) -> str:
    """Return the error that Telegram reports for the buttons, or an empty text."""
    for row in markup["inline_keyboard"] if markup else ():
        for key in row:
            if not 1 <= len(key["callback_data"].encode()) <= 64:
                return "BUTTON_DATA_INVALID"
            if key.get("style", "primary") not in ("primary", "success", "danger"):
                return "BUTTON_STYLE_INVALID"
    return ""


def _html_problem(text: str) -> str:
    """Return the error that Telegram reports for the HTML, or an empty text."""

    class Checker(HTMLParser):
        open: list[str] = []
        problem = ""

        def handle_starttag(self, tag: str, attributes: Any) -> None:
            if tag not in _TAGS:
                self.problem = f"unsupported tag {tag}"
            self.open = [*self.open, tag]

        def handle_endtag(self, tag: str) -> None:
            if not self.open or self.open[-1] != tag:
                self.problem = f"unexpected end tag {tag}"
            self.open = self.open[:-1]

    checker = Checker()
    checker.feed(text)
    return checker.problem or ("unclosed tag" if checker.open else "")


def private_update(number: int, text: str, *, user: int = 501, name: str = "Zoë", **extra: Any) -> dict[str, Any]:
    """Return an update with a message to the bot."""
    who = {"id": user, "is_bot": False, "first_name": name}
    message = {"message_id": number, "date": 1_780_000_000, "from": who, "chat": {"id": user, "type": "private"}}
    return {"update_id": 90_000 + number, "message": {**message, "text": text, **extra}}


def group_update(number: int, text: str, *, user: int = 501, chat: int = -100777, **extra: Any) -> dict[str, Any]:
    """Return an update with a message in a group."""
    who = {"id": user, "is_bot": False, "first_name": "Zoë"}
    place = {"id": chat, "type": "supergroup", "title": "Team"}
    message = {"message_id": number, "date": 1_780_000_000, "from": who, "chat": place, "text": text}
    return {"update_id": 90_000 + number, "message": {**message, **extra}}


def press_update(
    number: int, data: str, *, user: int = 501, chat: int | None = None, message: int = 1
) -> dict[str, Any]:
    """Return an update with a button press of the id `press-<number>`."""
    place = {"id": chat, "type": "supergroup"} if chat else {"id": user, "type": "private"}
    card = {"message_id": message, "date": 0, "chat": place}
    who = {"id": user, "is_bot": False, "first_name": "Zoë"}
    query = {"id": f"press-{number}", "from": who, "message": card, "data": data, "chat_instance": "1"}
    return {"update_id": 95_000 + number, "callback_query": query}
