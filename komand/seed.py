"""The first user, roles, model provider and agents of a new installation.

Each is created if it is missing and never changed afterwards; the agent of a team at the first start alone.
"""

import secrets
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.contrib.auth.models import User
from django.db import transaction

from agents_app.configuration import agent_versions
from agents_app.models import Agent, ModelProvider
from agents_app.services import DEFAULT_AGENT
from komand.settings import env
from sessions_app.identity.roles import create_roles
from tools_app import profiles
from tools_app.secrets import vault

ADMIN_NAME, ADMIN_EMAIL = "admin", "admin@localhost"
TEAM_AGENT = "team"
_STARTERS = (
    "What is 17*23 and what time is it in Tokyo?",
    "What time is it in London and in New York?",
    "What does https://example.com say?",
    "What can you do?",
)
_TEAM_PROMPT = """\
You lead a team. Answer simple questions yourself. Split a task with independent parts:
1. Launch a workstream for each part with launch_workstream, all in one step. A workstream sees nothing of this
   conversation: write its whole part into its instruction, and how long its answer should be.
2. Call wait_workstreams.
3. Answer from their results. If one failed, say which part is missing, and why.
What takes long, and what the person need not wait for: launch it with background, and say that you will report."""
# Those of a small real model, per 1,000 tokens, so that the pages about costs have something to show.
_DEMO_PRICES = {"input_price": 0.00015, "output_price": 0.0006}
_DEFAULT_MODEL = "gpt-5.4-mini"
_WITHOUT_LOOKALIKES = "abcdefghijkmnpqrstuvwxyz23456789"


@dataclass(frozen=True)
class Seeded:
    """The seeded objects.

    password: password of the first user if it was created now, else empty.
    agent: with its provider.
    """

    password: str
    agent: Agent


def seed() -> Seeded:
    """Create what is missing, in one transaction. Idempotent."""
    with transaction.atomic():
        create_roles()
        is_first_start = not ModelProvider.objects.exists()
        password = _make_admin()
        agent = _make_agent(_make_providers(is_first_start))
        if is_first_start:
            _make_team(agent.provider)
        agent_versions.record_missing()
        return Seeded(password, agent)


def _make_admin() -> str:
    if User.objects.filter(username=ADMIN_NAME).exists() or User.objects.filter(is_superuser=True).exists():
        return ""
    password = "-".join("".join(secrets.choice(_WITHOUT_LOOKALIKES) for _ in range(5)) for _ in range(4))
    User.objects.create_superuser(ADMIN_NAME, ADMIN_EMAIL, password)
    return password


def _make_agent(provider: ModelProvider) -> Agent:
    agent, _ = Agent.objects.select_related("provider").get_or_create(
        agent_id=DEFAULT_AGENT,
        defaults={
            "name": "Assistant",
            "provider": provider,
            "description": "Answers everyone who has no other agent.",
            "starters": list(_STARTERS),
            "is_shared_with_everyone": True,
            "tool_profile": profiles.CHAT,
        },
    )
    return agent


def _make_team(provider: ModelProvider) -> None:
    Agent.objects.create(
        agent_id=TEAM_AGENT,
        name="Team",
        provider=provider,
        description="Gives the parts of a task to workstreams that work at the same time, and reports what they found.",
        system_prompt=_TEAM_PROMPT,
        is_shared_with_everyone=True,
        tool_profile=profiles.TEAMS,
    )


def _make_providers(is_first_start: bool) -> ModelProvider:
    """Return the default agent's provider: the real one if the environment names one at the first start."""
    defaults = {"kind": "demo", "default_model": "demo", "embedding_model": "demo", **_DEMO_PRICES}
    demo, _ = ModelProvider.objects.get_or_create(name="demo", defaults=defaults)
    key, url = env.text("OPENAI_API_KEY"), env.text("OPENAI_BASE_URL").rstrip("/")
    if not is_first_start or not (key or url):
        return demo
    if url and urlsplit(url).scheme not in ("http", "https"):
        raise env.BadSetting("OPENAI_BASE_URL", f"must look like http://127.0.0.1:11434/v1, not {url!r}")
    return ModelProvider.objects.create(
        name="openai",
        kind="openai",
        base_url=url,
        api_key_sealed=vault.seal(key) if key else "",
        default_model=env.text("KOMAND_MODEL", _DEFAULT_MODEL),
    )
