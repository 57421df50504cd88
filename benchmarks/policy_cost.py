"""Times the authorization of a tool call against a separate database. Prints JSON.

A separate program, because it needs Django: `python -m benchmarks.policy_cost ROUNDS` with KOMAND_DATA_DIR set to a
folder that may be filled.
"""

import json
import os
import statistics
import sys
import time
from uuid import UUID, uuid4

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "komand.settings.worker"
django.setup()

# Only after Django is set up: these modules name models.
from django.core.management import call_command  # noqa: E402
from django.db import transaction  # noqa: E402
from django.utils import timezone  # noqa: E402

from tools_app.models import ToolExecution  # noqa: E402
from tools_app.policy.authorization import Gate  # noqa: E402
from tools_app.policy.decide import OPEN_SESSION  # noqa: E402
from tools_app.policy.rules import AgentPolicy, Budgets  # noqa: E402
from tools_app.registry import tools  # noqa: E402

_RULES = tuple(f"other{number}(url=https://{number}.example/*)" for number in range(20))
_POLICIES = {
    "gate, one call": AgentPolicy(agent_id="default"),
    "gate, one call, 80 rules and a budget": AgentPolicy(
        agent_id="default",
        denied=(*_RULES, "*(url=https://evil.example/*)"),
        always_ask=_RULES,
        auto_approve=_RULES,
        allowed=("*",),
        denied_hosts=tuple(f"{number}.evil.example" for number in range(20)),
        budgets=Budgets(actions_per_hour=1_000_000),
    ),
    "gate, one call that asks": AgentPolicy(agent_id="default", always_ask=("web_fetch",)),
}


def median_us(policy: AgentPolicy, rounds: int, *, session_id: UUID) -> float:
    tool, spent = tools.get("web_fetch"), []
    for number in range(rounds):
        arguments = {"url": f"https://example.com/page/{number}"}
        with transaction.atomic():
            begun = time.perf_counter()
            Gate(policy, OPEN_SESSION, actor="user:1", run_id=uuid4(), session_id=session_id).decide(tool, arguments)
            spent.append((time.perf_counter() - begun) * 1e6)
    return statistics.median(spent)


def tainted() -> UUID:
    """Store a session that has read 20 pages, and return its id."""
    session_id = uuid4()
    ToolExecution.objects.bulk_create(
        ToolExecution(
            run_id=uuid4(),
            session_id=session_id,
            agent_id="default",
            step=0,
            call_index=0,
            tool="web_fetch",
            arguments={"url": f"https://{number}.example/"},
            origins=f"page:{number}.example",
            output=json.dumps({"text": "A text with https://links.example/ in it. " * 500}),
            attempts=1,
            timeout_seconds=30,
            created_at=timezone.now(),
        )
        for number in range(20)
    )
    return session_id


if __name__ == "__main__":
    call_command("migrate", verbosity=0)
    figures = {name: median_us(policy, int(sys.argv[1]), session_id=uuid4()) for name, policy in _POLICIES.items()}
    figures["gate, one call of a tainted session"] = median_us(AgentPolicy(), int(sys.argv[1]), session_id=tainted())
    print(json.dumps(figures))
