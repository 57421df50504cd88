"""Agents, API keys and the audit log over REST."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Permission

from agents_app.configuration import prompt_templates
from agents_app.models import Agent
from agents_app.rights import VIEW_TEMPLATES
from audit_app import services as audit
from audit_app.models import AuditEntry
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import ApiKey
from tests.support.rest import RestCaller, make_agent, make_session
from tests.support.rights import grant, make_agent_owner, make_operator

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey", "default_agent"), pytest.mark.one_database]
SALES = {"agentId": "sales-bot", "name": "Sales", "modelProvider": "demo"}


@pytest.fixture
def bob():
    return RestCaller(make_agent_owner("bob"))


@pytest.fixture
def staff():
    return RestCaller(make_operator("carol"))


def test_a_created_agent_is_returned_with_its_defaults(author):
    answer = author.post("agents", SALES)
    assert answer.status == 200
    assert answer.data["systemPrompt"] == "You are a helpful enterprise AI assistant."
    assert (answer.data["maxContextTokens"], answer.data["allowedChannels"]) == (100_000, [])
    assert (answer.data["description"], answer.data["ownerId"]) == (None, str(author.user.pk))
    assert author.get("agents/sales-bot").data == answer.data


def test_parallel_tool_calls_are_on_off_or_the_default_of_the_server(author):
    assert author.post("agents", SALES).data["parallelToolCalls"] is None
    for wanted in (False, True, None):
        assert author.put("agents/sales-bot", {"parallelToolCalls": wanted}).data["parallelToolCalls"] is wanted


def test_an_agent_id_is_never_reused(author, bob):
    author.post("agents", SALES)
    assert bob.post("agents", SALES).status == 409
    assert author.delete("agents/sales-bot").status == 200
    assert author.get("agents/sales-bot").status == 404
    assert bob.post("agents", SALES).status == 409


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"agentId": "has space"}, "agentId:"),
        ({"agentId": ""}, "agentId:"),
        ({"name": None}, "name:"),
        ({"modelProvider": "nobody"}, "Known: demo"),
        ({"maxContextTokens": "many"}, "maxContextTokens:"),
        ({"maxContextTokens": -1}, "maxContextTokens:"),
        ({"allowedChannels": "WebChat"}, "allowedChannels:"),
        ({"enabledTools": ["no_such_tool"]}, "no_such_tool"),
        ({"autonomy": "wild"}, "autonomy:"),
        ({"systemPrompt": "a\0b"}, "systemPrompt:"),
    ],
)
def test_an_invalid_field_is_400_and_named(author, change, complaint):
    answer = author.post("agents", {**SALES, **change})
    assert answer.status == 400
    assert complaint in answer.error
    assert Agent.objects.count() == 1


def test_an_update_changes_only_the_fields_sent(author):
    author.post("agents", {**SALES, "description": "sells"})
    answer = author.put("agents/sales-bot", {"name": "Shop", "maxToolRounds": 3})
    assert (answer.data["name"], answer.data["maxToolRounds"], answer.data["description"]) == ("Shop", 3, "sells")
    assert author.put("agents/sales-bot", {"agentId": "sales-bot", "description": None}).data["description"] is None
    assert author.put("agents/sales-bot", {"agentId": "other"}).status == 400


def test_all_who_use_it_read_its_summary_but_only_owner_and_staff_change(author, bob, staff):
    author.post("agents", {**SALES, "sharing": {"everyone": True}})
    assert bob.get("agents/sales-bot").data == {"agentId": "sales-bot", "name": "Sales", "description": None}
    assert bob.get("agents/sales-bot").status == 200
    assert bob.put("agents/sales-bot", {"name": "Mine"}).status == 403
    assert bob.delete("agents/sales-bot").status == 403
    assert author.put("agents/default", {"name": "Mine"}).status == 403
    assert staff.put("agents/sales-bot", {"name": "Ours"}).status == 200


def test_only_staff_grant_full_autonomy(author, staff):
    assert author.post("agents", {**SALES, "autonomy": "full"}).status == 403
    author.post("agents", SALES)
    assert author.put("agents/sales-bot", {"autonomy": "full"}).status == 403
    assert staff.put("agents/sales-bot", {"autonomy": "full"}).data["autonomy"] == "full"


def test_the_default_agent_cannot_be_deleted(staff):
    assert staff.delete("agents/default").status == 409


def test_unknown_agents_are_404(author, staff):
    assert author.get("agents/nobody").status == author.get("agents/a%00b").status == 404
    assert staff.put("agents/nobody", {"name": "x"}).status == 404


def test_agents_are_listed_in_pages(author):
    make_agent("b"), make_agent("a")
    answer = author.get("agents?pageSize=2")
    assert [row["agentId"] for row in answer.data] == ["a", "b"]
    assert answer.meta == {"total": 3, "page": 1, "pageSize": 2}


def test_a_new_api_key_is_shown_once_and_works(author):
    made = author.post("api-keys", {"name": "script", "scopes": ["rest"], "expiresInDays": 7}).data
    assert RestCaller(bearer=made["key"]).get("sessions").status == 200
    (listed,) = author.get("api-keys").data
    assert "key" not in listed
    assert made["key"].startswith(listed["prefix"])
    assert ApiKey.objects.get().expires_at.date() == (datetime.now(UTC) + timedelta(days=7)).date()


def test_a_revoked_api_key_is_refused_at_once(author):
    made = author.post("api-keys", {"name": "script", "scopes": ["all"]}).data
    assert author.delete(f"api-keys/{made['id']}").status == 200
    assert RestCaller(bearer=made["key"]).get("sessions").status == 401
    assert author.get("api-keys").data[0]["revokedAt"] is not None


def test_a_key_cannot_create_keys_and_foreign_senders_take_a_right(author, staff):
    key = RestCaller(bearer=create_api_key(author.user, "script", scopes=["all"]).key)
    assert key.post("api-keys", {"name": "another", "scopes": ["all"]}).status == 403
    wide = {"name": "gateway", "scopes": ["all", "senders:any"]}
    assert author.post("api-keys", wide).status == 403
    staff.user.user_permissions.add(Permission.objects.get(codename="send_as_anyone"))
    assert staff.post("api-keys", wide).data["scopes"] == ["all", "senders:any"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "", "scopes": ["all"]},
        {"name": "x"},
        {"name": "x", "scopes": []},
        {"name": "x", "scopes": ["root"]},
        {"name": "x", "scopes": ["all"], "expiresInDays": 0},
    ],
)
def test_an_invalid_api_key_request_is_400(author, body):
    assert author.post("api-keys", body).status == 400


def test_the_audit_log_is_for_staff(author, staff):
    assert author.get("audit").status == 403
    assert RestCaller().get("audit").status == 401
    assert staff.get("audit").status == 200


def test_the_audit_log_is_filtered(staff):
    session = make_session(staff.user)
    audit.record(
        "Tested", actor="user:7", agent_id="a", session_id=session.pk, session_key=session.key, details={"n": 1}
    )
    audit.record("Tested", actor="agent:b", agent_id="b")
    (found,) = staff.get("audit?action=Tested&actorId=7").data
    assert (found["actorId"], found["sessionId"], found["details"]) == ("user:7", session.key, {"n": 1})
    for query in ("agentId=a", f"sessionId={session.key}", f"sessionId={session.pk}", "actorId=user:7"):
        assert len(staff.get(f"audit?action=Tested&{query}").data) == 1
    assert staff.get("audit?sessionId=WebChat:default:nobody").status == 404


def test_the_audit_log_is_filtered_by_time(staff):
    audit.record("Tested")
    at = AuditEntry.objects.get(action="Tested").at
    before, after = ((at + timedelta(seconds=s)).strftime("%Y-%m-%dT%H:%M:%SZ") for s in (-2, 2))
    assert staff.get(f"audit?action=Tested&from={before}&to={after}").meta["total"] == 1
    assert staff.get(f"audit?action=Tested&from={after}").meta["total"] == 0
    assert staff.get(f"audit?action=Tested&to={before}").meta["total"] == 0
    assert staff.get("audit?from=0001-01-01T00:00:00Z&action=Tested").meta["total"] == 1
    assert staff.get("audit?to=0001-01-01T00:00:00Z").meta["total"] == 0
    assert staff.get("audit?from=yesterday").status == 400


def test_an_agent_has_a_template_whose_parameters_keep_their_names(author):
    author = RestCaller(grant(author.user, VIEW_TEMPLATES))
    prompt_templates.save("shop", "---\nparameters: {shop_name: null}\n---\nYou sell for {{ shop_name }}.")
    refused = author.post("agents", {**SALES, "template": "shop"})
    assert refused.status == 400 and "it needs the parameter 'shop_name'" in refused.error
    given = {"template": "shop", "templateParameters": {"shop_name": "ACME"}}
    assert given.items() <= author.post("agents", {**SALES, **given}).data.items()
    parts = author.get("agents/sales-bot/prompt").data["parts"]
    assert (parts[0]["name"], parts[0]["text"]) == ("template shop", "You sell for ACME.")
    assert author.put("agents/sales-bot", {"template": "", "templateParameters": {}}).data["template"] == ""
