"""The objects of the route walk: everything belongs to alice, and each parameter of a route names one of hers."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from agents_app.configuration import agent_skills, agent_versions, prompt_templates
from agents_app.costs.cost_settings import set_price
from agents_app.models import Agent
from agents_app.network_runs import library
from agents_app.types.prices import Price
from sessions_app.attachments import uploads, user_files
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import (
    ChannelAccount,
    ChannelRoute,
    Delivery,
    Feedback,
    Login,
    PushSubscription,
    SenderLink,
    ShareLink,
    TaskPush,
    Turn,
)
from sessions_app.surfaces.threads.foreign_ids import workflow_id
from tests.support.rest import make_agent, make_execution, make_run, make_session, make_user
from tests.support.rights_table import Route
from tests.support.schedules import make_schedule
from tests.support.webchat import add_web
from tools_app.executions.user_input import request_input
from tools_app.models import Approval, Grant, McpServer, Memory
from tools_app.secrets import vault
from tools_app.secrets.credentials import store_credential
from tools_app.skills import registry
from tools_app.storage import shared_memory
from tools_app.storage.artifacts import Writer, write_artifact
from tools_app.storage.shared_memory import Space
from tools_app.types.questions import questions_of

# Parameters that name something that every user may read.
_SHARED = {"model", "skill_id", "provider", "user_id", "account"}
# The name is the caller's to choose, or one of an agent.
_OF_THE_CALLER = {
    "PUT /api/credentials/{}",
    "POST /api/v1/workflows/execute/{}",
    "POST /ag-ui/agents/{}",
    "POST /a2a/{}",
    "POST /a2a/{}/message:send",
    "POST /a2a/{}/message:stream",
    "GET /a2a/{}/tasks",
    "GET /a2a/{}/extendedAgentCard",
    "GET /a2a/{}/.well-known/agent-card.json",
    "DELETE /zeroclaw/api/memory/{}",
}
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
        execution = make_execution(run, status="Pending", tool="ask_user", arguments={"question": "Which?"})
        times = {"created_at": now, "expires_at": now + timedelta(hours=1)}
        Turn.objects.filter(session=self.session, role="user").update(run=run)
        approval = Approval.objects.create(execution=execution, run_id=run.pk, **times)
        request_input(execution, questions_of(execution.arguments))
        grant = Grant.objects.create(agent_id="alices", pattern="echo", granted_by="user:1", created_at=now)
        rating = {"target_type": "THREAD", "target_id": self.session.pk, "session": self.session, "rating": "up"}
        feedback = Feedback.objects.create(user=self.alice, created_at=now, updated_at=now, **rating)
        credential, _ = store_credential("weather", "a-key-of-alice", owner_id=self.alice.pk, hosts=["example.org"])
        McpServer.objects.create(name="srv", transport="streamable_http", url="http://127.0.0.1:1/")
        registry.register(_MANIFEST)
        agent_skills.install_skill(alices, "greet", owner_id=self.alice.pk)
        agent_versions.save_draft(alices, {"name": "Drafted"})
        file = f"agents/{self.session.pk}/files/a.txt"
        about_alice = {"agent_id": "default", "actor": f"user:{self.alice.pk}", "key": "car", "text": "blue"}
        times_of = {"run_id": run.pk, "created_at": now, "updated_at": now}
        account = ChannelAccount.objects.create(channel="telegram", account_id="linked")
        sent_file = uploads.upload(self.alice, "c.txt", b"hello")
        with transaction.atomic():
            uploads.bind(
                uploads.take(self.alice, (sent_file.pk,), self.session), Turn.objects.order_by("ordinal")[0].pk
            )
        memory = Memory.objects.create(**about_alice, **times_of, origins="page:example.org")
        self._bodies = {
            "POST /api/approvals/{}/decide": {"decision": "deny"},
            "POST /api/sessions/{}/fork": {"runId": str(run.pk)},
            "POST /api/api-keys": {"name": "another", "scopes": ["all"]},
            "POST /api/sessions/{}/bind": {"agentId": "default"},
            "POST /api/v1/files/download-url": {"file": file},
            "POST /api/v1/files/upload-url": {"id": file},
            "POST /v1/conversations/{}": {"metadata": {"topic": "another"}},
            "POST /v1/conversations/{}/items": {"items": [{"role": "user", "content": "Hello."}]},
        }
        add_web(config={"picture": "data:image/png;base64,iVBORw0KGgo="})
        price = {"inputPrice": 1, "outputPrice": 2}
        self._bodies["PUT /api/model-prices/{}/{}"] = price
        set_price("demo", "default", Price(1, 2))
        network = "name: routed\ntasks:\n- name: only\n"
        library.create(network, Agent.objects.all(), owner_id=self.alice.pk)
        options = {"network": {"name": "routed", "version": 1, "definition": network, "context": {}}}
        network_run = make_run(self.session, options=options)
        self._bodies["POST /api/networks/{}/run"] = {"message": "Hello"}
        self._bodies["PUT /api/networks/{}"] = {"definition": network}
        prompt_templates.save("greet", "Hello.")
        self._bodies["POST /api/templates"] = {"name": "another", "text": "Hello."}
        self._bodies["PUT /api/templates/{}"] = {"text": "Hello again."}
        for space in (Space("session", self.session.pk), Space("run", run.pk)):
            shared_memory.write(space, "facts", "few", writer="default")
        self._bodies["PUT /api/sessions/{}/shared-memory/{}"] = {"value": "many"}
        self._bodies["PUT /api/runs/{}/shared-memory/{}"] = {"value": "many"}
        self._queries = {"GET /api/v1/files/list": f"?prefix={file}"}
        pushes = "/pushNotificationConfigs"
        for method, route in (
            *(("GET", ""), ("POST", ":cancel"), ("GET", ":subscribe"), ("POST", ":subscribe")),
            *(("GET", pushes), ("POST", pushes), ("GET", f"{pushes}/{{}}"), ("DELETE", f"{pushes}/{{}}")),
        ):
            self._queries[f"{method} /a2a/{{}}/tasks/{{}}{route}"] = "?A2A-Version=1.0"
        self._bodies["POST /a2a/{}/tasks/{}/pushNotificationConfigs"] = {"url": "https://example.org/"}
        login = Login.objects.create(user=self.alice, address="192.0.2.1", last_seen_at=now)
        self._values: dict[str, Any] = {
            "session_id": self.session.pk,
            "thread_id": self.session.pk,
            "workflow_id": workflow_id(self.session.pk),
            "message_id": Turn.objects.order_by("ordinal")[0].pk,
            "turn_id": Turn.objects.order_by("ordinal")[0].pk,
            "execution_id": execution.pk,
            "approval_id": approval.pk,
            "attachment_id": uploads.upload(self.alice, "b.txt", b"hello").pk,
            "file_id": sent_file.pk,
            "artifact_id": write_artifact(Writer(self.session.pk), "files/a.txt", b"hello").id,
            "path": "files/a.txt",
            "feedback_id": feedback.pk,
            "memory_id": memory.pk,
            "key_id": create_api_key(self.alice, "script", scopes=["all", "zeroclaw"]).row.pk,
            "grant_id": grant.pk,
            "link_id": SenderLink.objects.create(user=self.alice, account=account, sender_id="501", linked_at=now).pk,
            "share_id": self._share().pk,
            "login_id": login.pk,
            "browser_id": PushSubscription.objects.create(user=self.alice, login=login, endpoint_digest="a").pk,
            "response_id": f"resp_{run.pk.hex}",
            "conversation_id": f"conv_{self.session.pk.hex}",
            "item_id": f"msg_{Turn.objects.order_by('ordinal')[0].pk.hex}",
            "agent_id": "alices",
            "number": 1,
            "key": "facts",
            "model": "default",
            "skill_id": "greet",
            "child_id": uuid4(),
            "signal": "Stop",
            "query": "AgentPlan",
            "action": "cancel",
            "token": "x",
            "channel": "telegram",
            "account_id": "main",
            "account": "site",
            "provider": "demo",
            "user_id": self.alice.pk,
        }
        schedule = make_schedule(self.alice)
        # Names that several surfaces use, by the beginning of the path.
        self._special: dict[tuple[str, str], Any] = {
            ("run_id", "/api/runs"): run.pk,
            ("run_id", "/api/networks"): network_run.pk,
            ("run_id", "/chat/"): run.pk,
            ("run_id", "/api/v1/"): self.session.pk,
            ("workflow_id", "/api/v1/"): f"agent-{self.session.pk}",
            ("name", "/api/credentials"): credential.name,
            ("name", "/api/mcp"): "srv",
            ("name", "/api/networks"): "routed",
            ("name", "/api/templates"): "greet",
            ("agent_id", "/api/cron"): "default",
            ("task_id", "/api/cron"): schedule.task_id,
            ("task_id", "/zeroclaw/"): schedule.pk,
            ("name", "/api/v1/"): "a.txt",
            ("file_id", "/v1/"): f"file-{user_files.store(self.alice, 'd.txt', b'd', purpose='user_data').pk.hex}",
            **self._channel(),
            **self._context(),
        }

    def _share(self) -> ShareLink:
        """Create a link to the session; its token is known to nobody."""
        now = timezone.now()
        times = {"created_at": now, "expires_at": now + timedelta(days=1)}
        chosen = {"branch": 0, "has_calls": False, "has_files": False}
        return ShareLink.objects.create(session=self.session, owner=self.alice, token_digest="x", **chosen, **times)

    def _channel(self) -> dict[tuple[str, str], Any]:
        """Create a channel account with a route and a delivery that was given up. Return their ids."""
        now = timezone.now()
        account = ChannelAccount.objects.create(channel="walked", account_id="main")
        delivery = Delivery.objects.create(
            dedupe_key="walked",
            account=account,
            ordering_key="walked",
            target={"chat": "1", "type": "direct", "thread": ""},
            status="failed",
            ready_at=now,
            expires_at=now,
            created_at=now,
        )
        route = ChannelRoute.objects.create(account=account, chat_id="1", agent=make_agent())
        self._bodies["POST /api/channels/{}/routes"] = {"chatId": "2", "agentId": "default"}
        self._bodies["PUT /api/channels/{}/routes/{}"] = {"chatId": "3"}
        ids = {"channel_id": account.pk, "route_id": route.pk, "delivery_id": delivery.pk}
        return {(name, "/api/channels"): key for name, key in ids.items()}

    def _context(self) -> dict[tuple[str, str], Any]:
        """Create a context of A2A with a task and a file. Return their ids."""
        session = make_session(self.alice, key=f"Api:default:{self.alice.pk}:walked")
        type(session).objects.filter(pk=session.pk).update(metadata={"a2a": {}}, channel="Api")
        file = write_artifact(Writer(session.pk), "files/a.txt", b"hello")
        run = make_run(session)
        TaskPush.objects.create(
            run=run, session=session, name="x", target_sealed=vault.seal('{"url": "", "scheme": ""}')
        )
        ids = {"agent_id": "default", "task_id": run.pk, "artifact_id": file.id, "config_id": "x"}
        return {(name, "/a2a/"): value for name, value in ids.items()}

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
