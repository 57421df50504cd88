"""The examples of the documentation, for the tests that run them."""

from io import StringIO
from pathlib import Path

from django.conf import settings
from django.core.management import call_command

from agents_app.models import Agent, ModelProvider

EXAMPLES = Path(settings.BASE_DIR, "docs", "examples")


def import_agents(name: str) -> list[Agent]:
    """Import the agents of an example. They call the scripted model, and everybody may use them."""
    ModelProvider.objects.get_or_create(name="demo", defaults={"kind": "demo"})
    provider, _ = ModelProvider.objects.get_or_create(name="scripted", defaults={"kind": "scripted"})
    before = set(Agent.objects.values_list("pk", flat=True))
    call_command("agents", "import", str(EXAMPLES / "agents" / f"{name}.yaml"), stdout=StringIO())
    imported = Agent.objects.exclude(pk__in=before)
    pks = list(imported.values_list("pk", flat=True))
    imported.update(provider=provider, model_id="script", is_shared_with_everyone=True)
    return list(Agent.objects.filter(pk__in=pks))
