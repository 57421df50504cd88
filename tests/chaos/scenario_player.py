"""Plays a scenario in a gateway that may crash, and compares the final state."""

from dataclasses import replace
from functools import cache
from uuid import UUID

from agents_app.models import Agent, ModelProvider, Run
from agents_app.providers.kinds.scripted import ScriptedProvider
from audit_app.kernel import context
from sessions_app.services import ReceiveOptions, receive
from tests.chaos.crash_gateway import Gateway
from tests.chaos.deeds import Ledger, deeds
from tests.chaos.endings import Ending, ending_of, live_text
from tests.chaos.scenarios import Scenario, StatefulScript, person_of, remember
from tools_app.executions.runner import context_of
from tools_app.models import ToolExecution
from tools_app.types import Effect

# A play takes 20 or so. Counted, not timed: a slow machine is not stuck.
_MOST_TURNS = 300
# Fields that scenarios may change.
_AGENT = {"is_shared_with_everyone": True, "max_context_tokens": 100_000, "enabled_tools": None}


class Play:
    """One scenario, played in a new session each time."""

    def __init__(self, scenario: Scenario, gateway: Gateway, valkey: object) -> None:
        self.scenario = scenario
        self.gateway = gateway
        self.ledger = Ledger()
        self.script = StatefulScript(scenario)
        self._valkey = valkey
        self._person = person_of("alice")
        self._count = 0
        self.tools = deeds(gateway, self.ledger)
        provider, _ = ModelProvider.objects.get_or_create(name="scripted", defaults={"kind": "scripted"})
        wanted = {"name": "A", "provider": provider, "model_id": "play", "retry_first_seconds": 0.0}
        wanted["output_schema"] = scenario.schema
        wanted["fallbacks"] = [{"provider": "scripted", "model": model} for model in scenario.fallbacks]
        Agent.objects.update_or_create(agent_id="default", defaults={**wanted, **_AGENT, **scenario.agent})

    def run(self, *cuts: int) -> UUID:
        """Play it to its end with these cuts. Return the session's id."""
        session_id = self.begin(*cuts)
        self.settle(session_id)
        for act in self.scenario.afterwards:
            act(self.gateway, session_id)
            self.settle(session_id)
        return session_id

    def begin(self, *cuts: int) -> UUID:
        """Receive its messages, with these cuts ahead. Return the session's id."""
        self._count += 1
        self.ledger.lines.clear()
        if self.scenario.memory:
            remember(self.scenario.memory)
        self.script = StatefulScript(self.scenario)
        ScriptedProvider.scripts.update(dict.fromkeys(("play", *self.scenario.fallbacks), self.script))
        gateway = self.gateway
        gateway.inbound = replace(gateway.inbound, thread_id=f"{self.scenario.name} {self._count}")
        gateway.arm(*cuts)
        options = ReceiveOptions(run=self.scenario.run_options)
        for number, text in enumerate(self.scenario.messages):
            message = replace(gateway.inbound, text=text)
            key = f"{message.thread_id} {number}"
            with context.bind(actor=f"user:{self._person.pk}"):
                accepted = gateway.run_until_stored(
                    "web", lambda m=message, k=key: receive(m, owner=self._person, idempotency_key=k, options=options)
                )
        found: UUID = accepted.session_id
        return found

    def settle(self, session_id: UUID) -> None:
        """Deliver nudges and sweep until the session is idle."""
        turns = 0
        while not self._at_rest(session_id):
            turns += 1
            assert turns <= _MOST_TURNS, f"stuck: {Run.objects.filter(conversation_id=session_id).values()}"
            self.advance(session_id)
        self.gateway.sweep()  # and nothing comes after the end

    def advance(self, session_id: UUID) -> None:
        """Let the person act, then deliver the next nudge or, if there is none, sweep."""
        self.scenario.person(self.gateway, session_id, self.gateway.broker[0][0] if self.gateway.broker else "")
        if self.gateway.broker:
            self.gateway.deliver()
        else:
            self.gateway.sweep()

    def _at_rest(self, session_id: UUID) -> bool:
        runs = Run.objects.filter(conversation_id=session_id)
        open_runs = runs.exclude(ended_at__isnull=False, end_stored=True)
        idle = {"is_on_its_own": True, "waiting_on": "parent", "end_stored": True}
        return not self.gateway.broker and not open_runs.exclude(**idle).exists()

    def check(self, session_id: UUID, usual: UUID, usual_calls: int, cuts: int) -> None:
        """Check that it ended as the usual session did. Only calls with effect `once` may have an unknown outcome."""
        unknown = self._check_effects(session_id)
        assert len(unknown) <= cuts
        assert ending_of(session_id, unknown=unknown, ignored=self.scenario.ignored) == self._usual(
            usual, frozenset(unknown)
        )
        assert len(self.script.requests) <= usual_calls + cuts
        for request in self.script.requests:
            assert any(self.scenario.memory in message.content for message in request.messages), "not recalled"
        for run in Run.objects.filter(conversation_id=session_id):
            seen = live_text(self._valkey, run.id)
            for step in run.steps.filter(kind="model"):
                assert seen.get(step.index, "") == step.text

    @cache  # noqa: B019 - lives as long as its test
    def _usual(self, session_id: UUID, unknown: frozenset[tuple[int, int]]) -> Ending:
        return ending_of(session_id, unknown=unknown, ignored=self.scenario.ignored)

    def _check_effects(self, session_id: UUID) -> set[tuple[int, int]]:
        unknown, keys = set(), set()
        for one in ToolExecution.objects.filter(
            session_id=session_id, tool__in=[tool.spec.name for tool in self.tools]
        ):
            keys.add(key := context_of(one).effect_key)
            happened = self.ledger.lines.count((one.tool, key))
            if one.effect == Effect.ONCE:
                assert happened <= 1
            if one.status == "Unknown":
                assert one.effect == Effect.ONCE
                unknown.add((one.step, one.call_index))
            elif one.status == "Completed":
                assert happened >= 1
        assert {key for _, key in self.ledger.lines} <= keys
        return unknown
