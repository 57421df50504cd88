"""The OpenAPI document describes every route, is valid, and matches real answers."""

import json
import re
from pathlib import Path

import pytest
import yaml
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.test import Client
from jsonschema import Draft202012Validator
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from komand import __version__, asgi
from komand.openapi import document
from komand.openapi.document import find_operations
from komand.openapi.routes import Route, list_routes
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.views.base import RestView
from tests.support.openapi_check import Document
from tests.support.rest import RestCaller, make_agent, make_execution, make_run, make_session, make_user
from tools_app.models import Approval
from tools_app.storage.artifacts import Writer, write_artifact

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


@pytest.fixture(scope="module")
def api() -> Document:
    return Document(document.build())


def test_every_method_of_every_route_is_declared():
    routes = list_routes()
    assert [
        (route.path, method) for route in routes for method in route.methods if method not in find_operations(route)
    ] == []
    listed = {name for one in document.descriptions() for name in one.operations}
    assert listed <= {f"{method.upper()} {route.path}" for route in routes for method in route.methods}


def test_a_method_without_a_declaration_is_not_described():
    class Undeclared(RestView):
        @Operation("Read it")
        def get(self, request): ...

        def put(self, request): ...

    assert find_operations(Route("/api/it", Undeclared, ("get", "put"), ())).keys() == {"get"}


def test_every_live_protocol_over_a_websocket_has_its_page():
    page = Path(settings.BASE_DIR, "docs", "live.md").read_text()
    paths = [
        re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(route.pattern))
        for route in asgi.routes()
        if issubclass(route.callback.consumer_class, AsyncWebsocketConsumer)
    ]
    assert paths and [path for path in paths if f"/{path}" not in page] == []


def test_the_document_is_valid(api):
    assert api.data["info"]["version"] == __version__
    OPENAPI_31_VALIDATOR.validate(json.loads(json.dumps(api.data)))
    for schema in api.data["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_every_reference_resolves(api):
    for reference in set(re.findall(r'"\$ref": "(#[^"]+)"', json.dumps(api.data))):
        assert api.resolved({"$ref": reference})


def test_operation_ids_are_unique_and_secured_operations_have_401(api):
    names = [operation["operationId"] for _, _, operation in api.operations()]
    assert len(names) == len(set(names))
    for path, method, operation in api.operations():
        assert operation["summary"] and bool(operation["security"]) <= ("401" in operation["responses"]), (path, method)


def test_it_is_served_as_json_and_as_yaml_without_login():
    client = Client()
    found = client.get("/api/schema")
    assert found.headers["Content-Type"] == "application/json"
    assert found.json() == document.build()
    for answer in (client.get("/api/schema?format=yaml"), client.get("/api/schema", headers={"Accept": "text/yaml"})):
        assert answer.headers["Content-Type"] == "application/yaml"
        assert yaml.load(answer.content, yaml.CSafeLoader) == found.json()
    assert client.get("/api/schema?format=xml").status_code == 400


def test_the_page_shows_every_operation_and_needs_no_exception_from_the_policy(api):
    answer = Client().get("/api/docs")
    page = answer.content.decode()
    assert [
        name for _, _, operation in api.operations() if f'id="{(name := operation["operationId"])}"' not in page
    ] == []
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert not re.search(r"<style|style=|<script(?!( type=\"module\")? src=\"/static/)| on\w+=", page)


MANIFEST = {"skillId": "greet", "name": "G", "version": "1.0.0", "publisherId": "us", "instruction": {"body": "Hi"}}


@pytest.fixture
def things():
    """Return an operator with one object of every kind."""
    admin = make_user("admin", is_staff=True, is_superuser=True)
    make_agent()
    session = make_session(admin, turns=2)
    run = make_run(session)
    execution = make_execution(run, status="Completed", output="{}")
    now = run.created_at
    approval = Approval.objects.create(
        execution=execution, run_id=run.pk, digest="0", reason="why", created_at=now, expires_at=now
    )
    file = write_artifact(Writer(session.pk, run.pk, "default"), "files/a.txt", b"hello")
    return {
        "caller": RestCaller(admin),
        "session": session.key,
        "run": run.pk,
        "execution": execution.pk,
        "approval": approval.pk,
        "file": file.id,
    }


READS = [
    "sessions",
    "sessions/{session}",
    "sessions/{session}/history",
    "sessions/{session}/artifacts",
    "runs/{run}",
    "tools/executions/{execution}",
    "approvals",
    "approvals/{approval}",
    "agents",
    "agents/default",
    "agents/default/skills",
    "skills",
    "api-keys",
    "credentials",
    "mcp/servers",
    "control",
    "audit",
]
WRITES = [
    ("POST", "agents", {"agentId": "second", "name": "Second", "mcpServers": ["files"], "budgets": {"costPerHour": 1}}),
    ("PUT", "agents/second", {"name": "2nd"}),
    ("POST", "api-keys", {"name": "script", "scopes": ["all"], "expiresInDays": 3}),
    ("POST", "credentials", {"name": "weather", "value": "a-long-value", "hosts": ["api.example.com"]}),
    ("POST", "skills", MANIFEST),
    ("POST", "agents/second/skills/greet", {}),
    ("POST", "mcp/servers", {"name": "files", "command": "files-server", "environment": {"KEY": "x"}}),
    ("POST", "mcp/servers/files/approve", {}),
    ("POST", "tools/receipts/verify", {"receipt": "kr1.a.b.c"}),
    ("POST", "sessions/{session}/cancel", {}),
    ("POST", "auth/login", {"email": "admin", "password": "secret-enough"}),
    ("POST", "auth/ticket", {}),
    ("POST", "control/stop", {"agentId": "second", "reason": "a test"}),
]


def test_answers_match_their_schemas(api, things):
    caller = things["caller"]

    def call(method, path, body=None):
        answer = caller(method, path.format(**things), body)
        whole = {"success": answer.status < 400, "data": answer.data, "error": answer.error, "meta": answer.meta}
        api.check(method, f"/api/{path.format(**things)}", answer.status, whole)
        return answer

    for method, path, body in WRITES:
        assert call(method, path, body).status == 200, path
    for path in READS:
        answer = call("GET", path)
        assert answer.status == 200 and (answer.data or path.endswith("default/skills")), path
    for method, path, body in (("POST", "agents", {"name": 1}), ("GET", "sessions/nothing", None)):
        assert call(method, path, body).status in (400, 404)


def test_an_uploaded_file_is_downloaded_unchanged(things):
    caller, address = things["caller"], f"sessions/{things['session']}/artifacts?path=files/r%C3%A9sum%C3%A9.html"
    put = caller("POST", address, b"<script>1</script>", Content_Type="text/html")
    assert put.status == 200 and put.data["mediaType"] == "text/html" and put.data["runId"] is None
    found = caller.get(put.data["url"].removeprefix("/api/"))
    assert found.data == b"<script>1</script>"
    assert found.headers["Content-Disposition"] == "attachment; filename*=utf-8''r%C3%A9sum%C3%A9.html"
    assert found.headers["X-Content-Type-Options"] == "nosniff"
    assert caller.delete(put.data["url"].removeprefix("/api/")).status == 200
    assert caller.get(put.data["url"].removeprefix("/api/")).status == 404


@pytest.mark.parametrize(
    ("path", "body", "content_type", "status", "code"),
    [
        ("etc/passwd", b"a", "text/plain", 400, "bad_path"),
        ("files/../a", b"a", "text/plain", 400, "bad_path"),
        ("files/a", b"a", "multipart/form-data; boundary=x", 415, "unsupported_media_type"),
        ("files/a", b"a" * 101, "text/plain", 413, "body_too_large"),
    ],
)
def test_a_forbidden_path_type_or_size_is_refused(things, settings, path, body, content_type, status, code):
    settings.KOMAND_ARTIFACT_MAX_BYTES = 100
    address = f"sessions/{things['session']}/artifacts?path={path}"
    answer = things["caller"]("POST", address, body, Content_Type=content_type)
    assert (answer.status, answer.meta["code"]) == (status, code)
