"""The cost of the policy for a tool call: the rules alone, and the authorization with its database reads."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.figures import Figure, p50
from benchmarks.scale import Scale
from tools_app.policy.decide import decide
from tools_app.policy.patterns import PolicyCall
from tools_app.policy.rules import AgentPolicy
from tools_app.types import Effect, Risk, TargetKind, ToolSpec

PART = "policy"

_FETCH = ToolSpec(
    "web_fetch",
    "Fetches.",
    {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]},
    effect=Effect.READ,
    risk=Risk.LOW,
    targets={"url": TargetKind.URL},
)
_RULES = tuple(f"other{number}(url=https://{number}.example/*)" for number in range(40))
_LONG = AgentPolicy(
    denied=(*_RULES, *(f"web_fetch(url=https://{number}.evil.example/*)" for number in range(20))),
    always_ask=_RULES,
    auto_approve=_RULES,
    allowed=("*",),
    allowed_hosts=("*.example.com", "example.com"),
)
_DECISION_US, _GATE_US = 1_000, 5_000


def measure(folder: Path, scale: Scale) -> list[Figure]:
    """Return the figures. folder: for a separate database."""
    rounds = 500 if scale.starts > 1 else 100
    return [
        Figure(PART, "decision, no rules, median", _decision_us(AgentPolicy(), rounds), "µs", target=_DECISION_US),
        Figure(PART, "decision, 180 rules, median", _decision_us(_LONG, rounds), "µs", target=_DECISION_US),
        *(
            Figure(PART, f"{name}, median", value, "µs", target=_GATE_US)
            for name, value in _gate_us(folder / "policy", rounds).items()
        ),
    ]


def _decision_us(policy: AgentPolicy, rounds: int) -> float:
    spent = []
    for number in range(rounds):
        arguments = {"url": f"https://example.com/page/{number}?q=x"}
        begun = time.perf_counter()
        decide(PolicyCall(_FETCH, arguments), Risk.LOW, policy, "user:1")
        spent.append((time.perf_counter() - begun) * 1e6)
    return p50(spent)


def _gate_us(folder: Path, rounds: int) -> dict[str, float]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("KOMAND_", "DATABASE_", "REDIS_"))}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.policy_cost", str(rounds)],
        env={**own, "KOMAND_DATA_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured
