"""A program beside an installation under backup: `fill` writes what has to survive, `show` prints what there is.

`write` sends messages, prints the id of each one that was accepted, and writes audit entries until it is killed.
"""

import json
import os
import sys
from datetime import timedelta
from unittest import mock

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "komand.settings.worker")
django.setup()

# Only after Django is set up: these modules name models.
from django.conf import settings  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.utils import timezone  # noqa: E402

from agents_app.models import Run  # noqa: E402
from audit_app.chain import sealer  # noqa: E402
from audit_app.kernel import nudges  # noqa: E402
from audit_app.services import record  # noqa: E402
from sessions_app.models import ChannelAccount, Delivery, Session  # noqa: E402
from sessions_app.services import NewMessage, open_session, receive  # noqa: E402
from tools_app.secrets import credentials  # noqa: E402
from tools_app.storage import artifacts  # noqa: E402


def send(text: str, session: Session, user: User) -> str:
    return str(receive(NewMessage("WebChat", "default", str(user.pk), "", text), owner=user, session=session).run_id)


def fill() -> None:
    user = User.objects.get(username="admin")
    session = open_session(owner=user, title="Kept")
    send("first", session, user)
    artifacts.write_artifact(artifacts.Writer(session.pk), "files/ä.txt", b"content")
    credentials.store_credential("mailbox", "secret value", owner_id=user.pk, hosts=["api.example.com"])
    account = ChannelAccount.objects.create(channel="webhook", account_id="crm")
    now = timezone.now()
    for status, owner in (("pending", None), ("sending", session.pk), ("sent", None)):
        Delivery.objects.create(
            dedupe_key=f"key-{status}",
            account=account,
            ordering_key=f"{account.pk}:{status}",
            target={"chat": "c"},
            text=status,
            body=status,
            status=status,
            owner=owner,
            ready_at=now,
            expires_at=now + timedelta(days=1),
            created_at=now,
            sent_at=now if status == "sent" else None,
        )
    sealer.seal_all()


def write() -> None:
    user = User.objects.get(username="admin")
    for _ in range(10):
        sys.stdout.write(send("more", open_session(owner=user, title="New"), user) + "\n")
        sys.stdout.flush()
    while True:
        record("Tested", actor="system")
        sealer.seal_next()


def show() -> None:
    user = User.objects.get(username="admin")
    session = Session.objects.get(title="Kept")
    (view,) = artifacts.list_artifacts(session.pk)
    found = {
        "runs": sorted(set(Run.objects.values_list("status", flat=True))),
        "run_ids": [str(pk) for pk in Run.objects.values_list("pk", flat=True)],
        "errors": sorted(set(Run.objects.values_list("error_message", flat=True))),
        "deliveries": dict(Delivery.objects.filter(run=None).values_list("dedupe_key", "status")),
        "artifact": artifacts.read_artifact(session.pk, view.path)[1].decode(),
        "credential": credentials.use_credential("mailbox", owner_id=user.pk, purpose="test"),
        "key": settings.KOMAND_RECEIPT_KEYS,
    }
    # The sequences go on behind the restored rows.
    Delivery.objects.create(
        dedupe_key="new",
        account=ChannelAccount.objects.get(),
        ordering_key="new",
        ready_at=timezone.now(),
        expires_at=timezone.now(),
        created_at=timezone.now(),
        status="expired",
    )
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    with mock.patch.object(nudges, "send"):  # there is no broker
        {"fill": fill, "write": write, "show": show}[sys.argv[1]]()
