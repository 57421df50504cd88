"""Skills over REST: published by operators, read by all users, installed by users who may change the agent."""

import pytest

from agents_app.models import Agent
from tests.support.rest import RestCaller, make_agent
from tests.support.rights import make_operator

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

MANIFEST = {
    "skillId": "crm-lookup",
    "name": "CRM",
    "version": "1.0.0",
    "publisherId": "acme",
    "description": "Finds people.",
    "category": "CRM",
    "inputSchema": {"type": "object"},
    "outputSchema": {"type": "object"},
    "requiredPermissions": ["crm:read", {"resource": "crm", "access": "write", "scope": None}],
    "declaredToolAccess": ["database"],
}
READ = {"resource": "crm", "access": "read", "scope": None}
WRITE = {"resource": "crm", "access": "write", "scope": None}


@pytest.fixture
def operator():
    make_agent()
    return RestCaller(make_operator("op"))


def test_a_skill_is_published_once_and_read_by_all_users(operator, author):
    published = operator.post("skills", MANIFEST)
    assert published.status == 200
    assert operator.post("skills", MANIFEST).status == 200
    assert operator.post("skills", {**MANIFEST, "name": "Other"}).status == 409
    data = author.get("skills/crm-lookup").data
    assert {name: data[name] for name in MANIFEST if name != "requiredPermissions"} == {
        name: value for name, value in MANIFEST.items() if name != "requiredPermissions"
    }
    assert data["requiredPermissions"] == [READ, WRITE]
    assert (data["isVerified"], data["kind"], data["versions"]) == (False, "declared", ["1.0.0"])


def test_the_list_is_filtered_and_paged(operator, author):
    for number, publisher in enumerate(("acme", "acme", "other")):
        operator.post("skills", {**MANIFEST, "skillId": f"skill-{number}", "publisherId": publisher})
    listed = author.get("skills?publisherId=acme&pageSize=1&page=2")
    assert [row["skillId"] for row in listed.data] == ["skill-1"]
    assert listed.meta == {"total": 2, "page": 2, "pageSize": 1}
    assert author.get("skills?verifiedOnly=true").data == []
    assert len(author.get("skills?category=CRM").data) == 3
    assert author.get("skills?category=none").data == []


def test_only_operators_publish_and_remove(operator, author):
    assert author.post("skills", MANIFEST).status == 403
    operator.post("skills", MANIFEST)
    assert author.delete("skills/crm-lookup").status == 403
    assert operator.delete("skills/crm-lookup").status == 200
    assert operator.get("skills/crm-lookup").status == 404


def test_another_version_is_published_with_put(operator):
    operator.post("skills", MANIFEST)
    assert operator.put("skills/crm-lookup", {**MANIFEST, "version": "1.1.0"}).data["versions"] == ["1.1.0", "1.0.0"]
    assert operator.put("skills/other", MANIFEST).status == 400
    assert operator.get("skills/crm-lookup?version=1.0.0").data["version"] == "1.0.0"
    assert operator.get("skills/crm-lookup?version=9.9.9").status == 404


@pytest.mark.parametrize(
    "body", [{}, [], "x", {**MANIFEST, "version": "one"}, {**MANIFEST, "requiredPermissions": [7]}]
)
def test_a_bad_manifest_is_400(operator, body):
    assert operator.post("skills", body).status == 400


def test_a_skill_is_installed_only_with_its_required_permissions(operator):
    operator.post("skills", MANIFEST)
    refused = operator.post("agents/default/skills/crm-lookup", {"grantedPermissions": ["crm:read"]})
    assert (refused.status, refused.meta["code"], refused.meta["missing"]) == (403, "permission_missing", ["crm:write"])
    assert operator.get("agents/default").data["enabledSkillIds"] == []
    installed = operator.post("agents/default/skills/crm-lookup", {"grantedPermissions": ["crm:read", WRITE]})
    assert (installed.status, installed.data["grantedPermissions"], installed.data["version"]) == (
        200,
        [READ, WRITE],
        "1.0.0",
    )
    assert operator.get("agents/default").data["enabledSkillIds"] == ["crm-lookup"]
    less = operator.put("agents/default/skills/crm-lookup", {"grantedPermissions": []})
    assert less.data["missingPermissions"] == [READ, WRITE]
    assert operator.delete("skills/crm-lookup").status == 409
    assert operator.delete("agents/default/skills/crm-lookup").status == 200
    assert operator.get("agents/default/skills").data == []
    assert operator.get("agents/default/skills/crm-lookup").status == 404


def test_only_users_who_may_change_the_agent_install_skills(operator, author):
    operator.post("skills", MANIFEST)
    assert author.post("agents/default/skills/crm-lookup", {}).status == 403
    assert author.get("agents/default/skills").status == 403
    author.post("agents", {"agentId": "mine", "name": "Mine"})
    assert author.post("agents/mine/skills/crm-lookup", {}).status == 200
    assert author.post("agents/mine/skills/none", {}).status == 404
    assert author.post("agents/none/skills/crm-lookup", {}).status == 404


def test_the_skills_of_an_agent_are_listed(operator):
    operator.post("skills", MANIFEST)
    operator.post("skills", {**MANIFEST, "skillId": "second"})
    made = operator.post("agents", {"agentId": "a", "name": "A", "enabledSkillIds": ["crm-lookup"]})
    assert made.data["enabledSkillIds"] == ["crm-lookup"]
    assert operator.get("agents/a/skills/crm-lookup").data["missingPermissions"] == []
    changed = operator.put("agents/a", {"enabledSkillIds": ["second"]})
    assert changed.data["enabledSkillIds"] == ["second"]
    assert [row["skillId"] for row in operator.get("agents/a/skills").data] == ["second"]
    unknown = operator.put("agents/a", {"name": "B", "enabledSkillIds": ["none"]})
    assert (unknown.status, unknown.meta["code"]) == (400, "unknown_skill")
    assert Agent.objects.get(agent_id="a").name == "A"
