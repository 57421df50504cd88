"""A Slack account on a whole gateway in one process."""

import json
from typing import Any

from sessions_app.channels import accounts
from sessions_app.models import ChannelAccount
from tests.fakes.slack import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, FakeSlack, signed_headers
from tests.support.channels import open_to_everyone, post

PATH = "/channels/slack/main/webhook"


def add(server: FakeSlack, *, receive: str = "webhook", **options: Any) -> ChannelAccount:
    config = {"api_url": f"{server.url}/api", "chat_seconds": 0.05, "receive": receive, **options.pop("config", {})}
    secrets = {"bot_token": BOT_TOKEN, "app_token": APP_TOKEN, "signing_secret": SIGNING_SECRET}
    account, _ = accounts.add_account("slack", "main", config=config, secrets=secrets, **open_to_everyone(options))
    return account


def deliver(payload: Any) -> int:
    body = json.dumps(payload).encode()
    return post(PATH, body, signed_headers(body))[0]
