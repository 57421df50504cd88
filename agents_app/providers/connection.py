"""Connects a model server without the admin: its models, one real call, its row, and the agents that answer with it.

The rules of a provider are those of the admin: of the address on the model, of keys in `provider_keys`.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.text import slugify

from agents_app.configuration import agents
from agents_app.models import DEMO, Agent, ModelProvider
from agents_app.providers import provider_keys, trial
from agents_app.rights import ADD_PROVIDERS, CHANGE_AGENTS, CHANGE_PROVIDERS
from audit_app import services as audit
from audit_app.kernel.errors import Forbidden, InvalidInput
from audit_app.kernel.rules import check_row
from audit_app.rights import holds
from tools_app.secrets import credentials

RIGHTS = (CHANGE_PROVIDERS, ADD_PROVIDERS, CHANGE_AGENTS)
# The protocol of nearly every server; docs/models.md lists their addresses.
_KIND = "openai"
_LONGEST_NAME = 50
_LONGEST_KEY = 4000


@dataclass(frozen=True)
class Server:
    """A model server as a person enters it.

    base_url: its address.
    key: empty for the stored one of this address, or none.
    model: empty until one is chosen.
    """

    base_url: str
    key: str = ""
    model: str = ""


def may_connect(user: User | AnonymousUser) -> bool:
    """Return whether the user may connect a model."""
    return all(holds(user, right) for right in RIGHTS)


def list_models(server: Server, user: User) -> tuple[str, ...]:
    """Return the models that the server lists. Raises InvalidInput, Forbidden, ProviderError."""
    return trial.list_models(_row_of(server, user))


def try_model(server: Server, user: User) -> trial.Trial:
    """Call the model once. Raises as `list_models`, and InvalidInput (model_missing, model_without_tools)."""
    if not server.model:
        raise InvalidInput("Choose a model first, or enter its name.", code="model_missing")
    row = _row_of(server, user)
    row.default_model = server.model
    check_row(row, fields=("default_model",))
    audit.record("ModelProviderTested", details={"provider": row.name})
    tried = trial.try_out(row)
    if not tried.takes_tools:
        message = (
            f"{server.model} answers, but its server refuses tools, which the agent sends with every message. "
            "Choose another model."
        )
        raise InvalidInput(message, code="model_without_tools")
    return tried


def agents_to_move() -> QuerySet[Agent]:
    """Return the agents that would use a connected model: the default one, and all that still use the demo."""
    rows = Agent.objects.filter(Q(agent_id=agents.DEFAULT_AGENT) | Q(provider__kind=DEMO, retired_at=None))
    return rows.order_by("pk")


def connect(server: Server, user: User) -> None:
    """Store the server, and let `agents_to_move` use its model, after a successful call. Raises as `try_model`."""
    try_model(server, user)
    row = _row_of(server, user)
    is_new = row._state.adding
    row.default_model = row.default_model or server.model
    with transaction.atomic():
        row.save()
        action = "ModelProviderCreated" if is_new else "ModelProviderUpdated"
        audit.record(action, details={"id": str(row.pk), "name": row.name})
        if server.key:
            provider_keys.record_key(row, server.key)
        own_model = "" if row.default_model == server.model else server.model
        for agent in agents_to_move():
            agents.update_agent(agent, provider=row.name, model_id=own_model, note=f"Connected {server.model}.")


def _row_of(server: Server, user: User) -> ModelProvider:
    """Return the row of the server's address, or a new one, with the given key; not saved."""
    row = ModelProvider.objects.filter(kind=_KIND, base_url=server.base_url).order_by("created_at").first()
    row = row or ModelProvider(name=_free_name(server.base_url), kind=_KIND, base_url=server.base_url)
    row.is_enabled = True
    _check_address(server.base_url)
    check_row(row, fields=("base_url",))
    if server.key:
        _check_key(server.key, user)
        provider_keys.set_key(row, server.key)
    return row


def _check_address(base_url: str) -> None:
    if not base_url:
        raise InvalidInput("Enter the address of the model server.", code="address_missing")


def _check_key(key: str, user: User) -> None:
    if len(key) > _LONGEST_KEY:
        raise InvalidInput(f"The key is longer than {_LONGEST_KEY:,} characters.", code="key_too_long")
    if problem := credentials.refuse_references(user, key):
        raise Forbidden(problem)


def _free_name(base_url: str) -> str:
    """Return a name that no provider has: the host and port of the address, and a number if needed."""
    try:
        host = urlsplit(base_url).netloc.rpartition("@")[2]
    except ValueError:  # the check of the address refuses it
        host = ""
    name = slugify(host.replace(".", "-").replace(":", "-"))[:_LONGEST_NAME].strip("-") or "model-server"
    taken = set(ModelProvider.objects.filter(name__startswith=name).values_list("name", flat=True))
    numbers = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(free for free in numbers if free not in taken)
