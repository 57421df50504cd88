"""Objects that users write, for the contract of their rules."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.db import models

from agents_app import services as agents
from agents_app.configuration import prompt_templates
from agents_app.costs import cost_settings
from agents_app.models import Agent, ModelPrice, ModelProvider, PromptTemplate, StoredNetwork, UserCostCap
from agents_app.network_runs import library
from agents_app.types.prices import Price
from sessions_app.channels import accounts, routes
from sessions_app.models import ChannelAccount, ChannelRoute, Schedule
from sessions_app.schedules import plans
from tools_app.mcp_client import servers
from tools_app.models import Credential, McpServer
from tools_app.secrets import credentials

NETWORK = "name: {name}\ntasks:\n- name: first\n  agent: default\n"
CALLBACK = {"callback_url": "https://example.org/hook"}
ONLY_LONG = "a text of any length is stored"


@dataclass(frozen=True)
class Subject:
    """An object that users write.

    good: values of a valid one, by column.
    bad: more values that a column refuses, besides those that follow from its type.
    unruled: columns that take any value of their type, with the reason.
    code: of the service's error if the rule has none of its own.
    store: writes a row with these values.
    path, sent: of REST; sent returns the body. body_lacks: columns that no body has.
    shown: what a form takes besides columns.
    """

    model: type[models.Model]
    good: Mapping[str, Any]
    store: Callable[[dict[str, Any]], Any] | None = None
    path: str = ""
    sent: Callable[[dict[str, Any]], dict[str, Any]] = dict
    bad: Mapping[str, list[Any]] = field(default_factory=dict)
    unruled: Mapping[str, str] = field(default_factory=dict)
    body_lacks: tuple[str, ...] = ()
    shown: Mapping[str, Any] = field(default_factory=dict)
    code: str = "invalid_input"

    def columns(self) -> Iterator[Any]:
        """Yield the columns that people write."""
        for column in self.model._meta.concrete_fields:
            is_automatic = getattr(column, "auto_now", False) or getattr(column, "auto_now_add", False)
            is_written = column.editable and not (column.is_relation or column.primary_key or is_automatic)
            if is_written and column.name not in self.unruled:
                yield column


def store_network(values: dict[str, Any]) -> None:
    library.create(values["definition"], Agent.objects.all(), owner_id=None)


def store_schedule(values: dict[str, Any]) -> None:
    given = {name: value for name, value in values.items() if name in plans.Plan.__annotations__}
    agent, owner = Agent.objects.get(), User.objects.get(username="op")
    plans.create(values["task_id"], plans.Plan(**given), agent=agent, owner=owner, actor="user:1")


def store_route(values: dict[str, Any]) -> None:
    account, agent = ChannelAccount.objects.get(), Agent.objects.get()
    routes.save(ChannelRoute(**{**values, "account": account, "agent": agent}))


def store_credential(values: dict[str, Any]) -> None:
    owner_id = User.objects.get(username="op").pk
    credentials.store_credential(values["name"], "a-long-value", owner_id=owner_id, hosts=values["hosts"])
    credentials.share_credential(values["name"], values["agents"], owner_id=owner_id)


def store_price(values: dict[str, Any]) -> None:
    price = Price(values["input_price"], values["output_price"], values["cached_input_price"])
    cost_settings.set_price(values["provider"], values["model"], price)


PATTERNS = {name: ["((("] for name in ("allowed_tools", "denied_tools", "always_ask", "auto_approve")}
HOSTS = {name: ["https://a.example/b"] for name in ("allowed_hosts", "denied_hosts")}
AGENT = Subject(
    Agent,
    good={"agent_id": "helper", "name": "Helper", "provider": "demo"},
    store=lambda values: agents.create_agent(**values),
    path="agents",
    sent=lambda values: {("model_provider" if n == "provider" else n): v for n, v in values.items()},
    bad={
        "agent_id": ["import"],
        "output_schema": [{"type": "nothing"}],
        "budgets": [{"costPerHour": -1}, {"costPerHour": 10**13}, {"actionsPerHour": 1.5}, {"costPerYear": 1}],
        "fallbacks": [[{"provider": [], "model": ""}], [{"provider": f"p{n}", "model": ""} for n in range(6)]],
        **{name: [texts] for name, texts in (PATTERNS | HOSTS).items()},
    },
    unruled={
        "description": ONLY_LONG,
        "system_prompt": ONLY_LONG,
        "owner_id": "set to the user who creates it",
        "retired_at": "set by retiring it",
        "is_shared_with_everyone": "a part of `sharing`",
    },
    body_lacks=("retry_first_seconds", "retry_max_seconds", "mcp_servers_mode", "mcp_servers"),
)
SUBJECTS = (
    AGENT,
    Subject(
        McpServer,
        good={"name": "files", "command": "files-server"},
        store=lambda values: servers.add_server(**values),
        path="mcp/servers",
        bad={"name": ["Bad Name"], "environment": [{"A": []}], "headers": [{"A": "b\nc"}]},
        code="bad_server",
    ),
    Subject(
        Credential,
        good={"name": "weather", "hosts": ["api.example.com"], "agents": ["default"]},
        store=store_credential,
        path="credentials",
        sent=lambda values: {**values, "value": "a-long-value"},
        shown={"value": "a-long-value"},
        bad={"name": ["a b"], "hosts": [["https://a.example/b"]], "agents": [["a b"]]},
    ),
    Subject(
        ChannelAccount,
        good={"channel": "webhook", "account_id": "second", "config": CALLBACK, "access": "paired"},
        store=lambda values: accounts.add_account(**{"secrets": {}, **values}),
        unruled={
            "config": "its adapter knows its settings: Setting.problem",
            "channel": "a registered channel: `channels.get` raises NotFound",
            "last_inbound_at": "set by messages",
            "last_sent_at": "set by messages",
            "last_error": "set by errors",
            "last_error_at": "set by errors",
        },
        code="bad_account",
    ),
    Subject(
        ChannelRoute,
        good={"agent": "default", "chat_id": "1", "sender_id": "2", "account": "main"},
        store=store_route,
        path="channels/{account}/routes",
        sent=lambda values: {
            n: v for n, v in ({**values, "agent_id": "default"}).items() if n not in ("agent", "account")
        },
        unruled={"is_chosen": "set by a sender's command"},
    ),
    Subject(
        Schedule,
        good={"task_id": "report", "agent": "default", "prompt": "Report.", "cron": "0 9 * * 1-5"},
        store=store_schedule,
        path="cron",
        sent=lambda values: {("agent_id" if n == "agent" else n): v for n, v in values.items()},
        unruled={
            "destination": "set from the session",
            "next_at": "computed from the plan",
            "created_by": "set to the actor",
            "created_at": "set when it is created",
            "updated_at": "set when it is changed",
            "cron": "read by Rhythm (bad_cron), which every way uses",
            "time_zone": "read by Rhythm (bad_time_zone), which every way uses",
            "network": "names a network of its user: access_runnable_network",
        },
    ),
    Subject(
        ModelProvider,
        good={"name": "acme", "kind": "openai", "base_url": "https://api.acme.example/v1"},
        bad={"base_url": ["ftp://acme.example"]},
        unruled={"kind": "a registered kind: the choices of the form"},
    ),
    Subject(
        ModelPrice,
        good={"provider": "demo", "model": "m", "input_price": 1, "output_price": 2, "cached_input_price": None},
        store=store_price,
    ),
    Subject(
        UserCostCap,
        good={"per_day": 1, "per_month": 2},
        store=lambda values: cost_settings.set_user_caps(User.objects.get(username="op").pk, **values),
    ),
    Subject(
        StoredNetwork,
        good={"definition": NETWORK.format(name="daily")},
        store=store_network,
        path="networks",
        unruled={
            "name": "read from the definition",
            "description": "read from the definition",
            "version": "counted",
            "owner_id": "set to the user who creates it",
            "is_shared_with_everyone": "a flag",
        },
        code="too_long",
    ),
    Subject(
        PromptTemplate,
        good={"name": "greeting", "text": "Hello."},
        store=lambda values: prompt_templates.create(values["name"], values["text"]),
        path="templates",
        code="invalid_template",
    ),
)
