"""Links between users and senders: made with proof on both sides, and the memory that they share."""

import itertools
import json
import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents_app.models import Agent, Run
from agents_app.providers.kinds.scripted import Reply
from audit_app import retention
from audit_app.kernel import context
from audit_app.kernel.ids import new_id
from audit_app.models import AuditEntry
from sessions_app.access import memory_owner
from sessions_app.approvals import permissions
from sessions_app.conversation.history import StoredConversations
from sessions_app.conversation.session_key import parse_key
from sessions_app.conversation.session_texts import StoredSessionTexts
from sessions_app.conversation.sessions import open_new
from sessions_app.identity import sender_links
from sessions_app.identity.api_keys import create_api_key
from sessions_app.identity.linked_memories import LinkedSenders
from sessions_app.identity.sender_links import LinkedAlready, NothingToConfirm, WrongNumber
from sessions_app.models import ChannelAccount, Delivery, SenderLink, Session
from tests.fakes.telegram import FakeTelegram, group_update, private_update
from tests.support.channels import add_telegram, settle, telegram
from tests.support.engine import EngineRig
from tests.support.rest import RestCaller, make_agent, make_user
from tools_app.models import Memory
from tools_app.storage import memories
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

ZOE, SENDER = 501, "sender:Telegram:501"
NUMBERS = itertools.count(1_000)  # of messages; tests that name a number use smaller ones


@pytest.fixture
def account(idle: EngineRig, platform: FakeTelegram) -> ChannelAccount:
    idle.agent(Reply(("fine",)))
    return add_telegram(platform, config={"read_all_groups": True})


class Chat:
    """The messages of a sender, and the notices that the chat gets."""

    def __init__(self, sender: int = ZOE) -> None:
        self._sender = sender

    def write(self, text: str, *, group: bool = False) -> str:
        """Return the newest notice after a message, empty if it got none."""
        before = Delivery.objects.count()
        update = group_update if group else private_update
        assert telegram(update(next(NUMBERS), text, user=self._sender)) == 200
        return Delivery.objects.order_by("id").last().text if Delivery.objects.count() > before else ""

    def send(self, code: str) -> str:
        """Send a code; return the number of the reply, empty if there is none."""
        found = re.search(r"\b\d{6}\b", self.write(f"/link {code}"))
        return found.group() if found else ""


def link(user: User, sender: int = ZOE) -> SenderLink:
    return sender_links.confirm(user, Chat(sender).send(sender_links.make_code(user).code))


def remember(actor: str, key: str, text: str, **written: Any) -> Memory:
    memories.store(memories.Holder("default", actor), memories.Written(key, text, uuid4(), **written))
    return Memory.objects.get(actor=actor, key=key)


def remembered_as(key: str, actor: str = SENDER) -> str:
    return LinkedSenders().remembered_as(Session.objects.get(key=key).pk, actor)


def test_a_sender_is_linked_by_a_code_in_the_chat_and_a_number_on_the_page(account: ChannelAccount) -> None:
    user = make_user("ada", first_name="Ada", last_name="Lovelace")
    made = sender_links.make_code(user)
    notice = Chat().write(f"/link {made.code.lower()}")
    number = re.search(r"\b\d{6}\b", notice)
    assert number and "Ada Lovelace" in notice and not sender_links.find_link(account, "501")
    [waiting] = sender_links.list_links(user)
    assert (waiting.sender_name, waiting.linked_at) == ("Zoë", None)
    row = sender_links.confirm(user, f" {number.group()} ")
    assert (row.account, row.sender_id, row.user) == (account, "501", user)
    assert [entry.action for entry in AuditEntry.objects.filter(action__contains="Link").order_by("id")] == [
        "LinkCodeMade",
        "LinkCodeSent",
        "SenderLinked",
    ]
    assert "linked with a user already" in Chat(ZOE).write(f"/link {sender_links.make_code(make_user('eve')).code}")


def test_a_code_works_once_for_a_while_and_only_the_newest(account: ChannelAccount) -> None:
    user, zoe, eve = make_user("ada"), Chat(), Chat(666)
    old, new = sender_links.make_code(user).code, sender_links.make_code(user).code
    assert not zoe.send(old) and zoe.send(new)
    assert "not valid" in eve.write(f"/link {new}")
    late = sender_links.make_code(user).code
    SenderLink.objects.update(expires_at=timezone.now())
    assert not zoe.send(late)
    with pytest.raises(NothingToConfirm):
        sender_links.confirm(user, "000000")
    code = sender_links.make_code(user).code
    User.objects.update(is_active=False)
    assert not zoe.send(code)
    assert code not in str(list(SenderLink.objects.values()))


def test_who_has_a_stolen_code_links_nothing(account: ChannelAccount) -> None:
    """The thief gets a number, and the user does not: the user is asked for one that their chat does not show."""
    user, thief = make_user("ada"), Chat(666)
    code = sender_links.make_code(user).code
    number = thief.send(code)
    mallory = make_user("mallory")
    with pytest.raises(NothingToConfirm):
        sender_links.confirm(mallory, number)
    wrong = f"{(int(number) + 1) % 1_000_000:06}"
    for _ in range(sender_links.MOST_WRONG_NUMBERS):
        with pytest.raises(WrongNumber):
            sender_links.confirm(user, wrong)
    with pytest.raises(NothingToConfirm):
        sender_links.confirm(user, number)
    assert not SenderLink.objects.exists()


def test_wrong_codes_are_limited_and_groups_are_refused(account: ChannelAccount) -> None:
    user, zoe = make_user("ada"), Chat()
    code = sender_links.make_code(user).code
    assert "private chat" in zoe.write(f"/link {code}", group=True)
    assert "Usage" in zoe.write("/link")
    assert [bool(zoe.write("/link AAAAAAAA")) for _ in range(6)] == [True] * 5 + [False]
    assert not zoe.send(code)
    assert AuditEntry.objects.get(action="MessageRefused").details["reason"] == "linking_closed"


def test_a_repeated_message_has_no_second_effect(account: ChannelAccount) -> None:
    code = sender_links.make_code(make_user("ada")).code
    for _ in range(2):
        telegram(private_update(7, f"/link {code}"))
    assert Delivery.objects.count() == 1 and SenderLink.objects.get().sender_id == "501"


def test_one_of_two_users_gets_the_sender(account: ChannelAccount) -> None:
    ada, eve = make_user("ada"), make_user("eve")
    first, second = (Chat().send(sender_links.make_code(user).code) for user in (ada, eve))
    sender_links.confirm(ada, first)
    with pytest.raises(LinkedAlready):
        sender_links.confirm(eve, second)
    assert sender_links.find_link(account, "501").user == ada


def test_memory_is_shared_in_private_chats_of_that_account_alone(account: ChannelAccount, idle: EngineRig) -> None:
    user = make_user("ada")
    own = f"user:{user.pk}"
    Chat().write("hello")
    Chat().write("hello", group=True)
    for key in ("Telegram:two:501", "Webhook:main:501"):
        open_new(parse_key(key), None, "Zoë", make_agent())
    assert remembered_as("Telegram:main:501") == SENDER
    row = link(user)
    assert remembered_as("Telegram:main:501") == own
    assert remembered_as("Telegram:main:501", own) == own
    assert remembered_as("Telegram:main:501", "sender:Telegram:7") == "sender:Telegram:7"
    for other in ("Telegram:main:-100777", "Telegram:two:501"):
        assert remembered_as(other) == SENDER
    of_webhook = "sender:Webhook/main:501"
    assert remembered_as("Webhook:main:501", of_webhook) == of_webhook
    assert LinkedSenders().remembered_as(new_id(), SENDER) == SENDER
    for is_active in (False, True):
        User.objects.update(is_active=is_active)
        assert remembered_as("Telegram:main:501") == (own if is_active else SENDER)
    sender_links.unlink(user, row.pk)
    assert remembered_as("Telegram:main:501") == SENDER


def last_message(request: Any) -> str:
    return [message.content for message in request.messages if message.role == "user"][-1]


def storing(key: str, text: str) -> Reply:
    return Reply((), tool_calls=(ToolCall("1", "memory_store", json.dumps({"key": key, "text": text})),))


def test_facts_that_were_told_in_the_chat_are_recalled_on_the_web_and_the_other_way(
    rig: EngineRig, platform: FakeTelegram
) -> None:
    replies = (storing("diet", "She is vegetarian."), Reply(("Noted.",)), Reply(("Pasta.",)))
    script = rig.agent(*replies, storing("allergy", "Dinner without nuts."), Reply(("Noted.",)), Reply(("Rice.",)))
    Agent.objects.update(autonomy="full")
    add_telegram(platform)
    link(rig.owner)
    telegram(private_update(1, "she is vegetarian, she says"))
    settle(rig, 2)
    [diet] = Memory.objects.all()
    assert (diet.actor, diet.source, diet.is_trusted) == (f"user:{rig.owner.pk}", "person", True)
    with context.bind(actor=f"user:{rig.owner.pk}"):
        rig.wait(rig.send("where shall I have dinner?").run_id)
        rig.wait(rig.send("dinner without nuts, please").run_id)
    assert "diet (the person said" in last_message(script.requests[2])
    telegram(private_update(2, "and here?"))
    settle(rig, 3)
    assert "allergy (the person said" in last_message(script.requests[-1])
    assert Session.objects.filter(owner=None).count() == 1, "sessions are not shared"


def test_linking_moves_what_is_remembered_of_the_chat_and_unlinking_leaves_it(
    account: ChannelAccount, idle: EngineRig
) -> None:
    user, zoe = make_user("ada"), Chat()
    zoe.write("hello")
    zoe.write("hello", group=True)
    runs = {run.session_key: run.pk for run in Run.objects.all()}
    for key, chat in (("diet", "Telegram:main:501"), ("bank", "Telegram:main:501"), ("team", "Telegram:main:-100777")):
        row = remember(SENDER, key, f"{key} of the chat", origins=("page:evil.example",) if key == "bank" else ())
        Memory.objects.filter(pk=row.pk).update(run_id=runs[chat])
    remember(f"user:{user.pk}", "diet", "diet of the web")
    link(user)
    mine = Memory.objects.filter(actor=f"user:{user.pk}").order_by("key")
    texts = {"bank": "bank of the chat", "diet": "diet of the web", "diet (2)": "diet of the chat"}
    assert {row.key: row.text for row in mine} == texts and not mine[0].is_trusted
    assert Memory.objects.get(actor=SENDER).key == "team", "what was written in a group stays there"
    found = memories.recall(memories.Holder("default", f"user:{user.pk}"), "chat", limit=9)
    assert {row.key for row in found} == {"bank", "diet (2)"}
    assert memory_owner(user).actors == (f"user:{user.pk}", SENDER)
    assert "no longer linked" in zoe.write("/unlink") and "not linked" in zoe.write("/unlink")
    assert mine.count() == 3 and Memory.objects.filter(actor=SENDER).count() == 1
    assert AuditEntry.objects.get(action="SenderUnlinked").actor == SENDER


def test_a_link_gives_no_right_and_makes_the_user_one_who_asks(account: ChannelAccount) -> None:
    user, zoe = make_user("ada", is_superuser=True), Chat()
    zoe.write("open https://example.org/a")
    session = Session.objects.get()
    assert StoredSessionTexts().origins(session.pk) == ("channel:Telegram",)
    link(user)
    assert StoredSessionTexts().origins(session.pk) == () and StoredSessionTexts().texts(session.pk).own
    assert permissions.find_decider(account, "501", session, is_alone=True) is None
    assert StoredConversations().requesters(session.pk, SENDER) == {SENDER, f"user:{user.pk}"}
    assert not RestCaller(user).get("sessions").data


def test_the_page_links_and_unlinks(account: ChannelAccount, settings: Any) -> None:
    user, browser, zoe = make_user("ada"), Client(), Chat()
    browser.force_login(user, "django.contrib.auth.backends.ModelBackend")
    assert "No channel is linked" in browser.get("/account/links").content.decode()
    code = re.search(r"/link (\w{8})", browser.post("/account/links/code").content.decode())
    assert code and code.group(1) not in browser.get("/account/links").content.decode(), "it is shown once"
    number = zoe.send(code.group(1))
    assert (
        "<strong>Zoë</strong> (telegram/main · 501) has sent your code"
        in browser.get("/account/links").content.decode()
    )
    wrong = browser.post("/account/links/confirm", {"number": "x"})
    assert wrong.status_code == 400 and "not the one that the chat shows" in wrong.content.decode()
    assert browser.post("/account/links/confirm", {"number": number}).headers["Location"] == "/account/links"
    row = SenderLink.objects.get()
    assert "Unlink Zoë" in browser.get("/account/links").content.decode()
    admin = Client()
    admin.force_login(make_user("olga", is_staff=True, is_superuser=True), "django.contrib.auth.backends.ModelBackend")
    assert "telegram/main · Zoë (501)" in admin.get(f"/admin/auth/user/{user.pk}/change/").content.decode()
    eve = Client()
    eve.force_login(make_user("eve"), "django.contrib.auth.backends.ModelBackend")
    assert eve.post(f"/account/links/{row.pk}/unlink").status_code == 404
    browser.post(f"/account/links/{row.pk}/unlink")
    assert not SenderLink.objects.exists()
    settings.KOMAND_FRESH_LOGIN_MINUTES = 15
    stored = browser.session
    stored["authenticated_at"] = 1
    stored.save()
    assert browser.post("/account/links/code").headers["Location"].startswith("/login/confirm")


def test_links_over_rest(account: ChannelAccount) -> None:
    user = make_user("ada")
    api, key = RestCaller(user), create_api_key(user, "script", scopes=["all"]).key
    number = Chat().send(api.post("account/links").data["code"])
    [waiting] = api.get("account/links").data
    assert (waiting["senderName"], waiting["channel"], waiting["isLinked"]) == ("Zoë", "telegram", False)
    assert api.post("account/links/confirm", {"number": "000"}).meta["code"] == "wrong_number"
    linked = api.post("account/links/confirm", {"number": number}).data
    assert linked["isLinked"] and linked["linkId"] == waiting["linkId"]
    assert RestCaller(make_user("eve")).delete(f"account/links/{linked['linkId']}").status == 404
    for path, body in (("account/links", {}), ("account/links/confirm", {"number": number})):
        assert RestCaller(bearer=key).post(path, body).meta["code"] == "key_links_channel"
    assert api.delete(f"account/links/{linked['linkId']}").status == 200 and api.get("account/links").data == []


def test_codes_that_were_not_used_are_removed(account: ChannelAccount) -> None:
    sender_links.make_code(make_user("ada"))
    SenderLink.objects.update(expires_at=timezone.now() - timedelta(days=2))
    link(make_user("eve"))
    [rule] = [rule for rule in retention.list_rules() if rule.name == "unused codes of links"]
    assert rule.prune(10) == 1 and SenderLink.objects.get().linked_at
