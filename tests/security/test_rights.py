"""Attacks of staff without rights, over REST, the page, protocols and a paired chat: refused, and audited by right.

sam is staff and may see runs in the admin. Over REST the same sam once decided, changed and read everything.
"""

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from agents_app.models import Agent
from agents_app.rights import GRANT_AUTONOMY
from audit_app.kernel.errors import NotFound
from audit_app.models import AuditEntry
from audit_app.rights import MissingRight
from sessions_app.approvals import permissions
from sessions_app.identity import roles
from sessions_app.identity.principal import Principal
from sessions_app.identity.request_admission import find_refusals
from sessions_app.models import ChannelAccount, Pairing, Session
from sessions_app.surfaces.signalr import commands
from tests.security.route_world import World
from tests.support.agents import AgentCaller
from tests.support.rest import RestCaller, make_user
from tests.support.rights import grant, make_agent_owner, make_operator
from tools_app.models import Approval, Control, Skill
from tools_app.rights import ALLOW_ALWAYS, DECIDE_APPROVALS, VIEW_APPROVALS
from tools_app.types import Decision

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

AGENT = {"agentId": "mine", "name": "Mine"}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def sam() -> User:
    user = make_user("sam", is_staff=True)
    return grant_permission(user, "agents_app.view_run")


def grant_permission(user: User, name: str) -> User:
    app, codename = name.split(".")
    user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
    return User.objects.get(pk=user.pk)


def refused_rights(user: User) -> list[str]:
    """Return the rights that the audit log says the user lacked."""
    entries = AuditEntry.objects.filter(action="RightRefused", actor=f"user:{user.pk}").order_by("pk")
    return [entry.details["right"] for entry in entries]


@pytest.mark.parametrize(
    ("method", "path", "body", "right"),
    [
        ("POST", "agents", {**AGENT, "autonomy": "full"}, "agents_app.add_agent"),
        ("PUT", "agents/default", {"systemPrompt": "Obey sam."}, "agents_app.change_agent"),
        ("DELETE", "agents/default", None, "agents_app.delete_agent"),
        ("GET", "audit", None, "audit_app.view_auditentry"),
        ("POST", "control/stop", {}, "tools_app.change_control"),
        ("POST", "control/resume", {}, "tools_app.change_control"),
        ("POST", "skills", {"skillId": "x"}, "tools_app.change_skill"),
        ("DELETE", "skills/greet", None, "tools_app.change_skill"),
        ("GET", "mcp/servers", None, "tools_app.change_mcpserver"),
    ],
)
def test_over_rest(world: World, sam: User, method: str, path: str, body: Any, right: str) -> None:
    answer = RestCaller(sam)(method, path, body)
    assert answer.status == 403
    assert (answer.meta["code"], answer.meta["right"]) == ("missing_right", right)
    assert right in answer.error and "superuser" in answer.error
    assert refused_rights(sam) == [right]
    assert not Agent.objects.filter(agent_id="mine").exists() and Skill.objects.count() == 1
    assert not Control.objects.filter(is_stopped=True).exists()


def test_agents_and_requests_of_others_are_not_found(world: World, sam: User) -> None:
    caller, approval = RestCaller(sam), Approval.objects.get()
    assert caller.get("approvals").data == []
    assert caller.get(f"approvals/{approval.pk}").status == 404
    decided = caller.post(f"approvals/{approval.pk}/decide", {"decision": "allow_always"})
    assert decided.status == 404 and "right" not in decided.meta
    assert caller.put("agents/alices", {"name": "Sam's"}).status == caller.delete("agents/alices").status == 404
    assert refused_rights(sam) == [VIEW_APPROVALS.permission] * 2
    assert AuditEntry.objects.filter(action="AgentRefused", actor=f"user:{sam.pk}").count() == 2
    approval.refresh_from_db()
    assert approval.status == "pending"


def test_the_export_of_the_audit_log(sam: User) -> None:
    answer = AgentCaller(sam)("GET", "/v1/audit-events/export")
    assert answer.status == 403 and "audit_app.view_auditentry" in str(answer.data)
    assert refused_rights(sam) == ["audit_app.view_auditentry"]


@pytest.mark.parametrize(
    ("held", "decision", "missing"),
    [
        ([VIEW_APPROVALS], "allow_once", DECIDE_APPROVALS),
        ([VIEW_APPROVALS, ALLOW_ALWAYS], "allow_always", DECIDE_APPROVALS),
        ([DECIDE_APPROVALS], "allow_always", ALLOW_ALWAYS),
    ],
)
def test_who_sees_a_request_but_may_not_decide_so(world: World, held: list[Any], decision: str, missing: Any) -> None:
    """Over REST, on the page, by the hub: the right is named, and decisions that are not allowed are not offered."""
    user, approval = make_operator("viv", *held), Approval.objects.get()
    caller = RestCaller(user)
    assert decision not in caller.get(f"approvals/{approval.pk}").data["choices"]
    answer = caller.post(f"approvals/{approval.pk}/decide", {"decision": decision})
    assert (answer.status, answer.meta["right"]) == (403, missing.permission)
    browser = Client()
    browser.force_login(user, "django.contrib.auth.backends.ModelBackend")
    page = browser.post(f"/chat/approvals/{approval.pk}/decide", {"decision": decision})
    assert page.status_code == 403 and missing.permission in page.content.decode()
    with pytest.raises(MissingRight, match=missing.permission):
        commands.decide(Principal(user, "jwt"), str(approval.pk), decision)
    assert refused_rights(user) == [missing.permission] * 3
    approval.refresh_from_db()
    assert approval.status == "pending"


def test_an_open_connection_loses_a_right_with_its_user(world: World) -> None:
    """The hub keeps the user object of a connection, and with it what Django remembers of their permissions."""
    connected, approval = Principal(make_operator("olga", DECIDE_APPROVALS), "jwt"), Approval.objects.get()
    assert connected.holds(DECIDE_APPROVALS)
    User.objects.get(username="olga").user_permissions.clear()
    with pytest.raises(NotFound):
        commands.decide(connected, str(approval.pk), "deny")
    assert not connected.holds(DECIDE_APPROVALS)


def test_the_check_of_an_open_stream_renews_its_rights() -> None:
    user = make_operator("olga", DECIDE_APPROVALS)
    connected = Principal(user, "jwt")
    assert connected.holds(DECIDE_APPROVALS)
    user.user_permissions.clear()
    assert find_refusals([connected]) == [None]
    assert not connected.holds(DECIDE_APPROVALS)


def test_the_owner_of_a_session_by_a_signal_of_agent_messages(world: World) -> None:
    approval = Approval.objects.get()
    body = {"message": "allow_once", "metadata": {"request_id": str(approval.pk)}}
    answer = AgentCaller(world.alice)("POST", f"agents/{world.session.pk}/signal/UserInput", body)
    assert (answer.status, answer.data["code"]) == (403, "missing_right")
    assert answer.data["details"] == {"right": DECIDE_APPROVALS.permission}
    assert refused_rights(world.alice) == [DECIDE_APPROVALS.permission]


def test_a_paired_chat(world: World, sam: User) -> None:
    account = ChannelAccount.objects.create(
        channel="telegram", account_id="main", agent=Agent.objects.get(agent_id="default")
    )
    Pairing.objects.create(account=account, sender_id="501", user=sam)
    session = Session(channel="Telegram", account_id="main", sender_id="501")
    assert permissions.allowed_decisions_in_chat(account, session, is_alone=True) == ()
    with pytest.raises(MissingRight, match=DECIDE_APPROVALS.permission):
        permissions.require_decider(account, "501", session, is_alone=True, decision=Decision.ALLOW_ONCE)
    grant(sam, DECIDE_APPROVALS)
    offered = permissions.allowed_decisions_in_chat(account, session, is_alone=True)
    assert Decision.ALLOW_ALWAYS not in offered and Decision.ALLOW_ONCE in offered
    assert permissions.allowed_decisions_in_chat(account, session, is_alone=False) == offered
    with pytest.raises(MissingRight, match=ALLOW_ALWAYS.permission):
        permissions.require_decider(account, "501", session, is_alone=True, decision=Decision.ALLOW_ALWAYS)
    assert refused_rights(sam) == [DECIDE_APPROVALS.permission, ALLOW_ALWAYS.permission]


def test_owners_of_agents_do_not_spare_them_from_approval(world: World) -> None:
    owner = RestCaller(make_agent_owner("ada"))
    assert owner.post("agents", {**AGENT, "autonomy": "full"}).meta["right"] == GRANT_AUTONOMY.permission
    assert owner.post("agents", {**AGENT, "autoApprove": ["*"]}).meta["right"] == ALLOW_ALWAYS.permission
    assert owner.post("agents", AGENT).status == 200
    assert owner.put("agents/mine", {"autonomy": "full"}).meta["right"] == GRANT_AUTONOMY.permission
    bold = RestCaller(grant(owner.user, GRANT_AUTONOMY)) if owner.user else owner
    assert bold.put("agents/mine", {"autonomy": "full"}).data["autonomy"] == "full"
    assert owner.put("agents/mine", {"autonomy": "full", "name": "Same"}).status == 200  # nothing is granted


def test_who_changes_users_cannot_take_over_one_with_more_rights() -> None:
    admin = grant_permission(make_user("helper", is_staff=True), "auth.change_user")
    admin = grant_permission(admin, "auth.view_user")
    operator, ordinary = make_operator("olga", DECIDE_APPROVALS), make_user("bob")
    browser = Client()
    browser.force_login(admin, "django.contrib.auth.backends.ModelBackend")
    assert browser.get(f"/admin/auth/user/{operator.pk}/password/").status_code == 403
    assert browser.get(f"/admin/auth/user/{ordinary.pk}/password/").status_code == 200


def test_roles_are_created_once_and_stay_as_administrators_leave_them(world: World) -> None:
    roles.create_roles()
    assert set(Group.objects.values_list("name", flat=True)) == set(roles.ROLES)
    assert list(Group.objects.get(name=roles.AGENT_OWNER).user_set.all()) == [world.alice]
    viewer, operator = Group.objects.get(name=roles.VIEWER), Group.objects.get(name=roles.OPERATOR)
    assert not viewer.permissions.exclude(codename__startswith="view_").exists()
    assert not viewer.permissions.filter(codename="view_credential").exists()
    assert set(viewer.permissions.all()) < set(operator.permissions.all())
    operator.permissions.clear()
    world.alice.groups.clear()
    roles.create_roles()
    assert not operator.permissions.exists() and not world.alice.groups.exists()


@pytest.mark.parametrize(("role", "may_decide", "may_always"), [("Operator", 1, 0), ("Administrator", 1, 1)])
def test_a_member_of_a_role_who_is_not_staff_decides(
    world: World, role: str, may_decide: bool, may_always: bool
) -> None:
    roles.create_roles()
    user, approval = make_user("olga"), Approval.objects.get()
    user.groups.add(Group.objects.get(name=role))
    caller = RestCaller(User.objects.get(pk=user.pk))
    choices = caller.get(f"approvals/{approval.pk}").data["choices"]
    assert ("deny" in choices, "allow_always" in choices) == (may_decide, may_always)
    assert caller.post(f"approvals/{approval.pk}/decide", {"decision": "deny"}).data["status"] == "denied"
    browser = Client()
    browser.force_login(user, "django.contrib.auth.backends.ModelBackend")
    assert browser.get("/admin/tools_app/approval/").status_code == 302
