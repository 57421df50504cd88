"""The details of an answer: its model, its time, its tokens and their cost."""

from uuid import UUID

from django.conf import settings

from agents_app import selectors as agents
from agents_app.types.prices import money
from sessions_app.surfaces.chat import labels


def read_details(run_id: UUID) -> list[tuple[str, str]]:
    """Return labels and values. Raises NotFound."""
    found = agents.get_cost(run_id)
    rows = [
        ("Model", ", ".join(found.models)),
        ("Time", labels.duration(found.seconds)),
        ("Input", _tokens(found.usage.input_tokens)),
        ("Output", _tokens(found.usage.output_tokens)),
        ("Cost", "" if found.cost is None else money(found.cost, settings.KOMAND_CURRENCY)),
    ]
    return [(label, value) for label, value in rows if value]


def _tokens(count: int) -> str:
    return f"{count:,} token{'' if count == 1 else 's'}" if count else ""
