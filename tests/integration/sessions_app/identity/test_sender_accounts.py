"""Senders of two accounts with the same id: what belongs to one of them is not the other's."""

import json
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from agents_app.models import Agent, Run
from agents_app.providers.kinds.scripted import Reply
from audit_app import services as audit
from audit_app.kernel.errors import Forbidden
from audit_app.models import AuditEntry
from sessions_app.access import memory_owner
from sessions_app.approvals import permissions
from sessions_app.channels import accounts
from sessions_app.conversation.history import StoredConversations
from sessions_app.identity.actor_names import name_of
from sessions_app.models import ChannelAccount, Pairing, Schedule, Session
from sessions_app.schedules import ticks
from tests.fakes.telegram import FakeTelegram
from tests.fakes.webhook_receiver import SECRET, WebhookReceiver, signed_headers
from tests.support import webchat
from tests.support.channels import add_telegram, add_webhook, open_to_everyone, settle
from tests.support.channels import post as post_webhook
from tests.support.engine import EngineRig
from tests.support.rest import RestCaller, make_user
from tools_app.models import Memory
from tools_app.types import Decision, ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

ILL = "I have asthma."


def calling(tool: str, **arguments: str) -> Reply:
    return Reply((), tool_calls=(ToolCall("1", tool, json.dumps(arguments)),))


RECALL = calling("memory_recall", query="asthma")


def remembering(rig: EngineRig, *more: Reply) -> Any:
    """Let the agent store what the first message says, then answer. Return the script."""
    stores = calling("memory_store", key="health", text=ILL)
    script = rig.agent(stores, Reply(("Noted.",)), *(more or [Reply(("Hello.",))] * 2))
    Agent.objects.update(autonomy="full")
    return script


def texts_of(request: Any) -> str:
    return " ".join(str(message.content) for message in request.messages)


def visit(rig: EngineRig, site: str, text: str, **more: str) -> Run:
    """Send a message of the visitor 42 of a site, and wait for the answer."""
    opened = webchat.post(f"{site}/sessions", {"userId": "42", "userHash": webchat.user_hash("42"), **more})
    sent = webchat.post(f"{site}/messages", webchat.message(text), bearer=opened.data["token"])
    assert (opened.status, sent.status) == (201, 202), (opened, sent)
    run = Run.objects.order_by("-pk")[0]
    rig.wait(run.pk)
    return run


def add_program(server: WebhookReceiver, name: str) -> ChannelAccount:
    settings.KOMAND_CALLBACK_ALLOW_PRIVATE = [server.address]
    config = {"callback_url": f"{server.url}/callback"}
    options = {"config": config, "secrets": {"secret": SECRET}, **open_to_everyone({})}
    return accounts.add_account("webhook", name, **options)[0]


def tell(rig: EngineRig, program: str, text: str, message_id: str, **data: str) -> Run:
    """Post a message of the sender u1 of a program, and wait for the answer."""
    body = json.dumps({"type": "message.received", "data": {"senderId": "u1", "text": text, **data}}).encode()
    status, _ = post_webhook(f"/channels/webhook/{program}/webhook", body, signed_headers(message_id, body))
    assert status == 202
    run = Run.objects.order_by("-pk")[0]
    rig.wait(run.pk)
    return run


def test_a_visitor_of_another_site_is_another_person(rig: EngineRig) -> None:
    script = remembering(rig, RECALL, Reply(("Nothing.",)), RECALL, Reply(("Yes.",)))
    for site in ("a", "b"):
        webchat.add_web(site)
    assert visit(rig, "a", ILL).actor == "sender:Web/a:42"
    assert Memory.objects.get().actor == "sender:Web/a:42"
    assert visit(rig, "b", "Do I have asthma?").actor == "sender:Web/b:42"
    assert ILL not in texts_of(script.requests[2]) + texts_of(script.requests[3])
    visit(rig, "a", "Do I have asthma?", conversationId="another")
    assert ILL not in texts_of(script.requests[4]) and ILL in texts_of(script.requests[5])
    received = AuditEntry.objects.filter(action="MessageReceived").order_by("pk").values_list("actor", flat=True)
    assert list(received) == ["sender:Web/a:42", "sender:Web/b:42", "sender:Web/a:42"]


def test_a_sender_of_another_program_is_another_person(rig: EngineRig, receiver: WebhookReceiver) -> None:
    script = remembering(rig, RECALL, Reply(("Nothing.",)), RECALL, Reply(("Yes.",)))
    add_webhook(receiver)
    add_program(receiver, "erp")
    assert tell(rig, "crm", ILL, "m1").actor == "sender:Webhook/crm:u1"
    assert tell(rig, "erp", "Do I have asthma?", "m2").actor == "sender:Webhook/erp:u1"
    assert ILL not in texts_of(script.requests[2]) + texts_of(script.requests[3])
    tell(rig, "crm", "Do I have asthma?", "m3", conversationId="another")
    assert ILL not in texts_of(script.requests[4]) and ILL in texts_of(script.requests[5])
    assert list(Memory.objects.values_list("actor", flat=True)) == ["sender:Webhook/crm:u1"]
    settle(rig, 3)


def test_a_schedule_acts_for_the_sender_at_its_account(rig: EngineRig, receiver: WebhookReceiver) -> None:
    plan = {"action": "create", "name": "daily", "prompt": "Report.", "cron": "0 9 * * *"}
    remembering(rig, calling("schedule", **plan), Reply(("Planned.",)), Reply(("Report.",)))
    long = add_program(receiver, "p" * 100)
    tell(rig, long.account_id, ILL, "m1")
    tell(rig, long.account_id, "Report each day.", "m2")
    schedule = Schedule.objects.get()
    assert schedule.created_by == f"sender:Webhook/{long.account_id}:u1"
    rig.wait(ticks.run_now(schedule, actor="user:1"))
    assert Run.objects.order_by("-pk")[0].actor == schedule.created_by
    assert AuditEntry.objects.get(action="CronExecuted").actor == schedule.created_by


def test_the_longest_ids_fit_into_the_columns(idle: EngineRig, receiver: WebhookReceiver) -> None:
    idle.agent(Reply(("fine",)))
    account = add_program(receiver, "p" * 120)
    for number, sender in enumerate(("u" * 180, "u" * 179 + "v")):
        body = json.dumps({"type": "message.received", "data": {"senderId": sender, "text": "hi"}}).encode()
        path = f"/channels/webhook/{account.account_id}/webhook"
        assert post_webhook(path, body, signed_headers(f"m{number}", body))[0] == 202
    one, other = Run.objects.order_by("pk").values_list("actor", flat=True)
    assert one != other and len(one) == len(other) == 200


def test_what_is_a_users_own_is_of_the_senders_of_that_account(receiver: WebhookReceiver) -> None:
    user = make_user("ada")
    for name in ("crm", "erp"):
        account = add_program(receiver, name)
    Pairing.objects.create(account=account, sender_id="u1", sender_name="Ada at ERP", user=user)
    assert memory_owner(user).actors == (f"user:{user.pk}", "sender:Webhook/erp:u1")
    assert name_of("sender:Webhook/erp:u1") == "Ada at ERP"
    assert name_of("sender:Webhook/crm:u1") == "Webhook/crm u1"


def test_a_user_who_is_paired_at_another_account_has_not_asked(
    idle: EngineRig, receiver: WebhookReceiver, platform: FakeTelegram
) -> None:
    idle.agent(Reply(("fine",)))
    user, asker = make_user("ada"), "sender:Webhook/crm:u1"
    for name in ("crm", "erp"):
        account = add_program(receiver, name)
    Pairing.objects.create(account=account, sender_id="u1", user=user)
    Pairing.objects.create(account=add_telegram(platform), sender_id="u1", user=user)
    body = json.dumps({"type": "message.received", "data": {"senderId": "u1", "text": "hi"}}).encode()
    post_webhook("/channels/webhook/crm/webhook", body, signed_headers("m1", body))
    session = Session.objects.get()
    assert StoredConversations().requesters(session.pk, asker) == {asker}
    Pairing.objects.create(account=ChannelAccount.objects.get(account_id="crm"), sender_id="u1", user=user)
    for actor in (asker, "sender:Webhook:u1"):
        assert StoredConversations().requesters(session.pk, actor) == {actor, f"user:{user.pk}"}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("sender:Web/a:42", {"of a", "of a before"}),
        ("sender:Web/b:42", {"of b", "of b before"}),
        ("sender:Web:42", {"of a", "of b", "of a before", "of b before", "without a session"}),
        ("sender:Web/a:4.", set()),
        ("sender:Web:4.", set()),
        ("sender:Telegram:501", {"proved"}),
    ],
)
def test_audit_entries_of_a_sender_are_found_by_both_forms(wanted: str, found: set[str]) -> None:
    entries = {
        "of a": ("sender:Web/a:42", "Web:a:42"),
        "of b": ("sender:Web/b:42", "Web:b:42"),
        "of another": ("sender:Web/a:x:42", "Web:a:x%3A42"),
        "of a before": ("sender:Web:42", "Web:a:42"),
        "of b before": ("sender:Web:42", "Web:b:42"),
        "without a session": ("sender:Web:42", ""),
        "proved": ("sender:Telegram:501", "Telegram:main:501"),
    }
    for action, (actor, session_key) in entries.items():
        audit.record(action, actor=actor, session_key=session_key)
    staff = make_user("root", is_superuser=True, is_staff=True)
    shown = {entry["action"] for entry in RestCaller(staff).get(f"audit?actorId={wanted}&pageSize=100").data}
    assert shown & {*entries} == found
    client = Client()
    client.force_login(staff)
    html = client.get("/admin/audit_app/auditentry/", {"q": wanted}).content.decode()
    listed = AuditEntry.objects.filter(action__in=entries).values_list("action", "pk")
    assert {action for action, pk in listed if f"/{pk}/change/" in html} == found


def test_a_refused_decision_names_the_account(receiver: WebhookReceiver) -> None:
    account = add_program(receiver, "erp")
    with pytest.raises(Forbidden):
        permissions.require_decider(account, "u1", None, is_alone=True, decision=Decision.ALLOW_ONCE)
    assert AuditEntry.objects.get(action="RightRefused").actor == "sender:Webhook/erp:u1"
