"""The objects of the route walk: everything belongs to alice, and each parameter of a route names one of hers."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.contrib.auth.models import User
from django.utils import timezone

from agents_app import skills
from sessions_app.attachments import uploads
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import Feedback, Login, Turn
from sessions_app.surfaces.threads.foreign_ids import workflow_id
from tests.support.rest import make_agent, make_execution, make_run, make_session, make_user
from tests.support.rights_table import Route
from tools_app.models import Approval, Grant, McpServer
from tools_app.secrets.credentials import store_credential
from tools_app.skills import registry
from tools_app.storage.artifacts import Writer, write_artifact

# Parameters that name something that every user may read.
_SHARED = {"model", "skill_id"}
# The name is the caller's to choose, or one of an agent.
_OF_THE_CALLER = {"PUT /api/credentials/{}", "POST /api/v1/workflows/execute/{}"}
# The object is named in the query or in the body.
_NAMED_IN_THE_BODY = {"GET /api/v1/files/list", "POST /api/v1/files/download-url", "POST /api/v1/files/upload-url"}
_MANIFEST = {"skillId": "greet", "name": "G", "version": "1.0.0", "publisherId": "us", "instruction": {"body": "Hi"}}


class World:
    """alice and her objects. `url` and `body` make a request that names them."""

    def __init__(self) -> None:
        now = timezone.now()
        make_agent()
        self.alice: User = make_user("alice")
        alices = make_agent("alices", owner_id=self.alice.pk, is_shared_with_everyone=False)
        self.session = make_session(self.alice, turns=2)
        run = make_run(self.session)
        execution = make_execution(run, status="Pending")
        times = {"created_at": now, "expires_at": now + timedelta(hours=1)}
        approval = Approval.objects.create(execution=execution, run_id=run.pk, **times)
        grant = Grant.objects.create(agent_id="alices", pattern="echo", granted_by="user:1", created_at=now)
        rating = {"target_type": "THREAD", "target_id": self.session.pk, "session": self.session, "rating": "up"}
        feedback = Feedback.objects.create(user=self.alice, created_at=now, updated_at=now, **rating)
        credential, _ = store_credential("weather", "a-key-of-alice", owner_id=self.alice.pk, hosts=["example.org"])
        McpServer.objects.create(name="srv", transport="http", url="http://127.0.0.1:1/")
        registry.register(_MANIFEST)
        skills.install_skill(alices, "greet", owner_id=self.alice.pk)
        file = f"agents/{self.session.pk}/files/a.txt"
        self._bodies = {
            "POST /api/approvals/{}/decide": {"decision": "deny"},
            "POST /api/api-keys": {"name": "another", "scopes": ["all"]},
            "POST /api/sessions/{}/bind": {"agentId": "default"},
            "POST /api/v1/files/download-url": {"file": file},
            "POST /api/v1/files/upload-url": {"id": file},
        }
        self._queries = {"GET /api/v1/files/list": f"?prefix={file}"}
        self._values: dict[str, Any] = {
            "session_id": self.session.pk,
            "thread_id": self.session.pk,
            "workflow_id": workflow_id(self.session.pk),
            "message_id": Turn.objects.order_by("ordinal")[0].pk,
            "execution_id": execution.pk,
            "approval_id": approval.pk,
            "attachment_id": uploads.upload(self.alice, "b.txt", b"hello").pk,
            "artifact_id": write_artifact(Writer(self.session.pk), "files/a.txt", b"hello").id,
            "path": "files/a.txt",
            "feedback_id": feedback.pk,
            "key_id": create_api_key(self.alice, "script", scopes=["all"]).row.pk,
            "grant_id": grant.pk,
            "login_id": Login.objects.create(user=self.alice, address="192.0.2.1", last_seen_at=now).pk,
            "response_id": f"resp_{run.pk.hex}",
            "agent_id": "alices",
            "model": "default",
            "skill_id": "greet",
            "child_id": uuid4(),
            "signal": "Stop",
            "query": "AgentPlan",
            "action": "cancel",
            "token": "x",
            "channel": "telegram",
            "account_id": "main",
        }
        # Names that several surfaces use, by the beginning of the path.
        self._special: dict[tuple[str, str], Any] = {
            ("run_id", "/api/runs"): run.pk,
            ("run_id", "/chat/"): run.pk,
            ("run_id", "/api/v1/"): self.session.pk,
            ("workflow_id", "/api/v1/"): f"agent-{self.session.pk}",
            ("name", "/api/credentials"): credential.name,
            ("name", "/api/mcp"): "srv",
            ("name", "/api/v1/"): "a.txt",
        }

    def url(self, route: Route) -> str:
        special = {name: value for (name, prefix), value in self._special.items() if route.path.startswith(prefix)}
        return route.url({**self._values, **special}) + self._queries.get(route.name, "")

    def body(self, route: Route) -> Any:
        return self._bodies.get(route.name, {})


def names_an_object(route: Route) -> bool:
    """Return whether the route names something that belongs to a user."""
    if route.name in _OF_THE_CALLER:
        return False
    return bool(set(route.parameters) - _SHARED) or route.name in _NAMED_IN_THE_BODY
