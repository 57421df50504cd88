"""Notifications for programs, which the outbox posts to the address of a `TaskPush`. Synchronous."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db.models.functions import Now

from audit_app.kernel.errors import NotFound
from audit_app.kernel.json_text import as_json
from sessions_app.channels.nudges import deliveries as delivery_nudge
from sessions_app.models import ChannelAccount, Delivery, TaskPush
from sessions_app.platforms.messages import Chat, Outgoing, Target
from sessions_app.platforms.signed_post import LIFETIME_SECONDS
from tools_app.secrets import vault

KIND, CHANNEL = "push", "a2a-push"


def plan(push: TaskPush, seq: int, notifications: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Store notifications that follow an event, in the caller's transaction: each a line for operators, and content."""
    account, _ = ChannelAccount.objects.get_or_create(channel=CHANNEL, account_id="default")
    same: dict[str, Any] = {
        "account": account,
        "session_id": push.session_id,
        "ordering_key": _ordering_key(account, push),
        "target": Target(Chat(str(push.pk), "direct")).as_json(),
        "kind": KIND,
        "ready_at": Now(),
        "created_at": Now(),
        "expires_at": Now() + timedelta(seconds=LIFETIME_SECONDS),
    }
    for number, (text, content) in enumerate(notifications):
        body = as_json(content)
        Delivery.objects.create(dedupe_key=f"push:{push.pk}:{seq}:{number}:0", text=text, body=body, **same)
    delivery_nudge.send_on_commit()


def withdraw(push: TaskPush) -> None:
    """Delete the notifications that are still to be sent, in the caller's transaction."""
    for account in ChannelAccount.objects.filter(channel=CHANNEL):
        rows = Delivery.objects.filter(ordering_key=_ordering_key(account, push), status="pending", owner=None)
        rows.delete()


def _ordering_key(account: ChannelAccount, push: TaskPush) -> str:
    return f"{account.pk}:{push.pk}"


def addressed(message: Outgoing) -> Outgoing:
    """Return a notification with the address and the credentials that are configured now. Raises NotFound."""
    push = TaskPush.objects.filter(pk=message.target.chat.id).first()
    if push is None:
        raise NotFound("The push notification configuration was deleted.")
    reference = json.loads(vault.unseal(push.target_sealed))
    return replace(message, target=replace(message.target, reference=reference))
