"""Ways in as files: a text that stands in a letter (.docx, .pdf or .txt) which the user attaches or uploads."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4
from xml.sax.saxutils import escape

from django.test import Client

from agents_app.models import Run
from sessions_app.identity.principal import Principal
from sessions_app.models import Session
from sessions_app.surfaces.rest.consumers import accept_message
from tests.fakes.telegram import BOT_NAME, TOKEN, FakeTelegram, private_update
from tests.security.taint import senders
from tests.security.taint.world import Gateway
from tests.support.channels import TELEGRAM_SECRET
from tests.support.documents import pdf, word
from tests.support.rest import RestCaller
from tools_app.storage import artifacts

ASKED = "What does the letter say?"
LETTERS: dict[str, Callable[[str], bytes]] = {
    "letter.txt": str.encode,
    "letter.docx": lambda text: word(escape(text)),
    "letter.pdf": lambda text: pdf(text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")),
}


def on_the_page(gateway: Gateway, text: str, name: str = "letter.docx") -> None:
    browser = Client()
    browser.force_login(gateway.user, "django.contrib.auth.backends.ModelBackend")
    form = {"text": ASKED, "agent": gateway.agent.agent_id, "key": str(uuid4()), "files": _upload(gateway, text, name)}
    assert browser.post("/chat/start", form, headers={"HX-Request": "true"}).status_code == 200
    gateway.finish(_run(gateway))


def over_rest(gateway: Gateway, text: str, name: str = "letter.docx") -> None:
    body: dict[str, Any] = {"senderId": str(gateway.user.pk), "text": ASKED, "agentId": gateway.agent.agent_id}
    body["attachments"] = [_upload(gateway, text, name)]
    gateway.finish(accept_message(Principal(gateway.user, "jwt"), body, str(uuid4())).run_id)


def over_telegram(gateway: Gateway, text: str, name: str = "letter.docx") -> None:
    server = gateway.platform(FakeTelegram)
    server.files["letter"] = LETTERS[name](text)
    config = {"api_url": server.url, "bot_username": BOT_NAME, "chat_seconds": 0}
    secrets = {"bot_token": TOKEN, "webhook_secret": TELEGRAM_SECRET}
    account = senders._account(gateway, "telegram", "501", config, secrets)
    file = {"file_id": "letter", "file_name": name}
    headers = {"content-type": "application/json", "x-telegram-bot-api-secret-token": TELEGRAM_SECRET}
    senders._deliver(gateway, account, json.dumps(private_update(1, ASKED, document=file)).encode(), headers)


def by_the_tool(gateway: Gateway, text: str, name: str = "letter.docx") -> None:
    """A person uploads the letter to the conversation; a later run reads it."""
    gateway.say("Hello.")
    session = Session.objects.get(agent=gateway.agent)
    artifacts.write_artifact(artifacts.Writer(session.id), f"files/{name}", LETTERS[name](text))
    gateway.say(f"Read the letter. [[CALL read_artifact {json.dumps({'path': f'files/{name}'})}]]")


def _upload(gateway: Gateway, text: str, name: str) -> str:
    answer = RestCaller(gateway.user)("POST", f"attachments?filename={name}", LETTERS[name](text))
    return str(answer.data["attachmentId"])


def _run(gateway: Gateway) -> UUID:
    return Run.objects.get(agent=gateway.agent, parent=None).pk
