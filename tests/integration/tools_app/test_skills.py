"""The registry of skills, installs, and each kind of skill called on real servers."""

import json
from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User

from audit_app.kernel import redact
from audit_app.kernel.errors import Conflict, Forbidden, InvalidInput, NotFound
from audit_app.models import AuditEntry
from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer, Fault
from tools_app import catalogue
from tools_app.models import McpServer, McpTool, SkillInstall, SkillVersion
from tools_app.policy.decide import Ask, Deny, decide, refuse_tool
from tools_app.policy.patterns import PolicyCall
from tools_app.policy.rules import AgentPolicy
from tools_app.secrets import credentials
from tools_app.secrets.credentials import share_credential, store_credential
from tools_app.skills import registry
from tools_app.skills.manifest import digest_of
from tools_app.skills.skill_tools import SkillSource
from tools_app.types import AsyncTool, Effect, Risk, ToolContext, ToolError, ToolSpec

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

SECRET = "a-secret/that must&stay"


class Echo(FakeServer):
    """Returns the request; `/redirect?to=` redirects, `/big` is large, `/odd` is not JSON."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[HttpRequest] = []

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        self.requests.append(request)
        path, _, query = request.path.partition("?")
        if path == "/redirect":
            return 302, {"location": query.removeprefix("to=")}, b""
        if path == "/big":
            return 200, {"content-type": "text/plain"}, b"x" * (1024 * 1024 + 1)
        if path == "/odd":
            return 200, {"content-type": "application/json"}, b"{"
        if path == "/zipped":
            return 200, {"content-type": "text/plain", "content-encoding": "gzip"}, b"x"
        if path == "/text":
            return 200, {"content-type": "text/plain; charset=latin-1"}, "grün".encode("latin-1")
        if path == "/no-such-charset":
            return 200, {"content-type": "text/plain; charset=bogus"}, "grün".encode()
        received = {
            "method": request.method,
            "path": request.path,
            "headers": request.headers,
            "body": request.body.decode(),
        }
        return 200, {"content-type": "application/json"}, json.dumps(received).encode()


@pytest.fixture(scope="module")
def server():
    with Echo() as server:
        yield server


@pytest.fixture
def echo(server, settings):
    server.requests.clear()
    server.faults.clear()
    settings.KOMAND_SKILL_ALLOW_PRIVATE = [server.address]
    settings.KOMAND_TRUSTED_PUBLISHERS = ["acme"]
    registry.load_manifest.cache_clear()
    return server


def manifest(version="1.0.0", *, sign=False, **fields):
    data = {"skillId": "lookup", "name": "Lookup", "version": version, "publisherId": "acme", **fields}
    return {**data, "signatureHash": digest_of(data)} if sign else data


def http(server, path="/v1/{{input.id}}", **fields):
    return {"method": "GET", "url": server.url + path, **fields}


ID = {"type": "object", "properties": {"id": {"type": "string"}}, "additionalProperties": False}


def install(data, **options):
    registry.register(data)
    options.setdefault("owner_id", None)
    return registry.install("default", data["skillId"], **options)


def tool():
    found = SkillSource().find_tool("skill__lookup", "default")
    assert found is not None
    return found


def call(arguments=None, *, seconds=10, actor="user:1"):
    context = ToolContext(uuid4(), uuid4(), uuid4(), "default", actor, "key", seconds)
    found = tool()
    if isinstance(found, AsyncTool):
        return async_to_sync(found.run)(arguments or {}, context)
    return found.run(arguments or {}, context)


def test_a_version_never_changes_and_the_newest_one_is_shown():
    _, is_new = registry.register(manifest())
    assert is_new
    assert registry.register(manifest())[1] is False
    with pytest.raises(Conflict, match="already published"):
        registry.register(manifest(description="Another."))
    registry.register(manifest("1.10.0", name="Newer"))
    registry.register(manifest("1.9.0"))
    view = registry.get_skill("lookup")
    assert (view.manifest.version, view.manifest.name, view.versions) == (
        "1.10.0",
        "Newer",
        ("1.10.0", "1.9.0", "1.0.0"),
    )
    assert registry.get_skill("lookup", "1.0.0").manifest.name == "Lookup"
    assert AuditEntry.objects.filter(action="SkillRegistered").count() == 3


def test_a_skill_stays_its_publishers():
    registry.register(manifest())
    with pytest.raises(Conflict, match="acme"):
        registry.register(manifest("2.0.0") | {"publisherId": "mallory"})


def test_the_badge_needs_the_signature_and_a_trusted_publisher(settings):
    settings.KOMAND_TRUSTED_PUBLISHERS = ["acme"]
    assert not registry.register(manifest())[0].is_verified
    assert registry.register(manifest("1.0.1", sign=True))[0].is_verified
    skills, total = registry.list_skills(verified_only=True)
    assert ([view.manifest.version for view in skills], total) == (["1.0.1"], 1)
    settings.KOMAND_TRUSTED_PUBLISHERS = []
    assert not registry.get_skill("lookup").is_verified
    assert registry.list_skills(verified_only=True) == ((), 0)


def test_a_stored_manifest_that_was_changed_loses_its_badge(settings):
    settings.KOMAND_TRUSTED_PUBLISHERS = ["acme"]
    registry.register(manifest(sign=True))
    row = SkillVersion.objects.get()
    SkillVersion.objects.update(manifest={**row.manifest, "description": "Changed."})
    assert not registry.get_skill("lookup").is_verified


def test_installing_needs_every_required_permission_in_whatever_shape():
    data = manifest(requiredPermissions=["crm:read", {"resource": "crm", "access": "write", "scope": None}])
    with pytest.raises(Forbidden) as caught:
        install(data, granted=["crm:read"])
    assert (caught.value.code, caught.value.extra["missing"]) == ("permission_missing", ["crm:write"])
    assert not SkillInstall.objects.exists()
    assert install(data, granted=[{"resource": "crm", "access": "read"}, "crm:write"]).lacking == ()
    assert registry.list_installs("other") == ()
    with pytest.raises(InvalidInput):
        install(data, granted=["crm"])


def test_a_skill_in_use_is_not_deleted():
    install(manifest())
    with pytest.raises(Conflict, match="default"):
        registry.delete_skill("lookup")
    registry.uninstall("default", "lookup")
    registry.delete_skill("lookup")
    with pytest.raises(NotFound):
        registry.get_skill("lookup")


def test_an_http_skill_is_a_tool_of_its_agent_alone(echo):
    install(manifest(http=http(echo), inputSchema=ID, description="Looks up."))
    source = SkillSource()
    (offered,) = source.list_tools("default")
    assert (offered.spec.name, offered.spec.description, offered.spec.effect) == (
        "skill__lookup",
        "Looks up.",
        Effect.READ,
    )
    assert offered.spec.parameters == ID
    assert list(source.list_tools("other")) == []
    assert source.find_tool("skill__lookup", "other") is None
    assert source.find_tool("skill__none", "default") is None


def test_nobody_takes_an_unverified_skills_word_that_its_risk_is_low(echo):
    install(manifest(http=http(echo), risk="low"))
    assert tool().spec.risk is Risk.MEDIUM
    install(manifest("1.1.0", http=http(echo), risk="low", sign=True))
    assert tool().spec.risk is Risk.LOW


def test_an_http_skill_sends_the_request_with_its_owners_credential(echo):
    owner = User.objects.create_user("alice").pk
    store_credential("crm", SECRET, owner_id=owner, hosts=["127.0.0.1"])
    store_credential("crm", "the-installations", owner_id=None)
    template = http(echo, method="POST", headers={"X-Key": "Key {{credential:crm}}"}, json={"q": "{{input.id}}"})
    install(manifest(http=template, inputSchema=ID), owner_id=owner)
    answer = call({"id": "a/b"}, actor=f"user:{owner}")
    (sent,) = echo.requests
    assert (sent.method, sent.path, sent.headers["x-key"], sent.body) == (
        "POST",
        "/v1/a%2Fb",
        f"Key {SECRET}",
        b'{"q": "a/b"}',
    )
    assert answer["headers"]["x-key"] == f"Key {redact.MASK}"
    assert SECRET not in json.dumps(answer)
    entry = AuditEntry.objects.get(action="CredentialAccessed")
    assert entry.details["purpose"] == "skill lookup"


def test_a_credential_that_is_not_there_is_named_and_nothing_is_sent(echo):
    install(manifest(http=http(echo, "/", headers={"X-Key": "{{credential:crm}}"})), owner_id=7)
    with pytest.raises(ToolError, match="no credential 'crm'"):
        call()
    assert echo.requests == []


def test_a_permission_that_was_taken_back_refuses_the_call(echo):
    install(manifest(http=http(echo, "/")))
    assert call()
    assert registry.change_grants("default", "lookup", []).lacking
    with pytest.raises(ToolError, match="lacks required permissions: network:outbound"):
        call()
    assert len(echo.requests) == 1


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/redirect?to=http://127.0.0.1:1/x", "redirects the request to another host"),
        ("/redirect?to=http://metadata.google.internal/", "redirects the request to another host"),
        ("/redirect?to=/redirect?to=/redirect", "redirects more than"),
        ("/big", "larger than 1024 KB"),
        ("/odd", "declared as JSON but is not valid"),
        ("/zipped", "compressed response"),
    ],
)
def test_an_unusable_response_is_explained(echo, path, expected):
    install(manifest(http=http(echo, path)))
    with pytest.raises(ToolError, match=expected):
        call()


def test_a_redirect_within_the_host_is_followed_for_reads_alone(echo):
    install(manifest(http=http(echo, "/redirect?to=/there")))
    assert call()["path"] == "/there"
    install(manifest("1.1.0", http=http(echo, "/redirect?to=/there", method="POST")))
    with pytest.raises(ToolError, match="redirects"):
        call()


@pytest.mark.parametrize("path", ["/text", "/no-such-charset"])
def test_a_plain_text_answer_is_text(echo, path):
    install(manifest(http=http(echo, path)))
    assert call() == "grün"


def test_faults_of_the_server_and_the_network_are_reported_without_secrets(echo):
    store_credential("crm", SECRET, owner_id=None)
    share_credential("crm", ["default"], owner_id=None)
    install(manifest(http=http(echo, "/", headers={"X-Key": "{{credential:crm}}"})))
    echo.faults += [Fault("status", status=503), Fault("drop"), Fault("slow", seconds=5.0)]
    for expected in ("status 503", "cannot be reached", "did not respond within"):
        with pytest.raises(ToolError, match=expected) as caught:
            call(seconds=1 if echo.faults[0].what == "slow" else 30)
        assert SECRET not in str(caught.value)


def test_a_private_host_is_reached_only_when_the_operator_allows_it(echo, settings):
    install(manifest(http=http(echo, "/")))
    settings.KOMAND_SKILL_ALLOW_PRIVATE = []
    with pytest.raises(ToolError, match="not a public address"):
        call()
    assert echo.requests == []


def test_a_result_that_the_manifest_rules_out_is_refused(echo):
    rule = {"type": "object", "required": ["price"], "properties": {"price": {"type": "number"}}}
    install(manifest(http=http(echo, "/"), outputSchema=rule))
    with pytest.raises(ToolError, match="price is missing"):
        call()


def test_an_instruction_skill_returns_its_text_and_files():
    install(manifest(instruction={"body": "Be short.", "files": {"a.md": "More."}}, description="How to\nwrite."))
    found = tool()
    assert found.spec.prompt_line == "- skill__lookup: How to write."
    assert (found.spec.effect, found.spec.risk) == (Effect.READ, Risk.LOW)
    assert call() == {"name": "Lookup", "instructions": "Be short.", "files": ["a.md"]}
    assert call({"file": "a.md"}) == {"file": "a.md", "text": "More."}
    with pytest.raises(ToolError):
        call({"file": "../secret"})


def test_a_stored_manifest_that_cannot_be_read_any_more_costs_its_own_tool_alone():
    install(manifest())
    install({**manifest(instruction={"body": "Do."}), "skillId": "other"})
    version = SkillVersion.objects.get(skill__skill_id="lookup")
    registry.load_manifest.cache_clear()
    SkillVersion.objects.filter(pk=version.pk).update(manifest={"skillId": "lookup"})
    assert [tool.spec.name for tool in SkillSource().list_tools("default")] == ["skill__other"]
    assert SkillSource().find_tool("skill__lookup", "default") is None


def test_what_is_only_declared_is_no_tool():
    install(manifest())
    assert list(SkillSource().list_tools("default")) == []


class Remote(AsyncTool):
    spec = ToolSpec("mcp__files__read", "Reads.", {"type": "object"}, Effect.ONCE, Risk.HIGH, server="files")

    async def run(self, arguments, context):
        return {"said": arguments}


def test_an_mcp_skill_is_the_tool_it_names_and_no_safer(monkeypatch):
    monkeypatch.setattr(catalogue, "find_tool", lambda name, agent_id: Remote() if name == "mcp__files__read" else None)
    install(manifest(mcp={"server": "files", "tool": "read"}, inputSchema=ID, risk="low", effect="read"))
    assert call({"id": "x"}) == {"said": {"id": "x"}}
    assert tool().risk_of({}) is Risk.HIGH
    assert tool().effect_of({}) is Effect.ONCE


def test_an_mcp_skill_is_not_another_tool_whose_name_reads_alike(monkeypatch):
    server = McpServer.objects.create(name="files", command="x")
    McpTool.objects.bulk_create(McpTool(server=server, name=name) for name in ("read.it", "read_it"))
    asked = []
    monkeypatch.setattr(catalogue, "find_tool", lambda name, agent_id: asked.append(name))
    for name in ("read.it", "read_it"):
        install(manifest(mcp={"server": "files", "tool": name}))
        assert list(SkillSource().list_tools("default")) == []
        registry.uninstall("default", "lookup")
        registry.delete_skill("lookup")
    assert asked[1] == "mcp__files__read_it" and asked[0].startswith("mcp__files__read_it_")


def test_what_refuses_the_tool_refuses_the_skill_that_stands_for_it(monkeypatch):
    monkeypatch.setattr(catalogue, "find_tool", lambda name, agent_id: Remote())
    install(manifest(mcp={"server": "files", "tool": "read"}, inputSchema=ID, risk="low", effect="read"))
    spec = tool().spec
    for policy in (
        AgentPolicy("full", denied=("mcp__files__*",)),
        AgentPolicy("full", denied=("mcp__files__read(id=*)",)),
        AgentPolicy("full", mcp_servers=()),
        AgentPolicy("readonly"),
    ):
        assert isinstance(decide(PolicyCall(spec, {"id": "x"}), Risk.HIGH, policy, "user:1"), Deny)
    asks = AgentPolicy("full", always_ask=("mcp__files__read",))
    assert isinstance(decide(PolicyCall(spec, {"id": "x"}), Risk.HIGH, asks, "user:1"), Ask)


def test_an_mcp_skill_is_no_tool_without_the_one_it_names():
    install(manifest(mcp={"server": "files", "tool": "gone"}))
    assert list(SkillSource().list_tools("default")) == []


def test_the_rules_about_hosts_hold_for_the_host_of_an_http_skill():
    install(manifest(http={"method": "GET", "url": "https://api.example.com/v1"}))
    spec = tool().spec
    for policy in (
        AgentPolicy("full", denied_hosts=("*.example.com",)),
        AgentPolicy("full", allowed_hosts=("other.example",)),
        AgentPolicy("full", within=AgentPolicy("full", denied_hosts=("api.example.com",))),
    ):
        assert refuse_tool(spec, policy) is not None
        assert isinstance(decide(PolicyCall(spec, {}), Risk.LOW, policy, "user:1"), Deny)
    assert refuse_tool(spec, AgentPolicy(allowed_hosts=("api.example.com",))) is None


def test_the_value_is_gone_after_the_credential_is(echo):
    store_credential("crm", SECRET, owner_id=None)
    share_credential("crm", ["default"], owner_id=None)
    install(manifest(http=http(echo, "/", headers={"X-Key": "{{credential:crm}}"})))
    call()
    credentials.delete_credential("crm", owner_id=None)
    with pytest.raises(ToolError, match="no credential"):
        call()
