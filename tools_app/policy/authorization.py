"""Applies the policy with the current emergency stop, budgets and grants to each call."""

import os
from dataclasses import replace
from functools import cached_property
from typing import Any
from uuid import UUID

from tools_app.injection import guard
from tools_app.policy import credential_access, emergency_stop, grants, readings, taint
from tools_app.policy.budgets import ActionBudget
from tools_app.policy.decide import Allow, Ask, Deny, Situation, Verdict, decide
from tools_app.policy.patterns import PolicyCall
from tools_app.policy.rules import AgentPolicy, SessionPolicy
from tools_app.policy.suggestions import Proposal, propose
from tools_app.policy.taint import Taint
from tools_app.types import AnyTool, Effect, Risk


class Gate:
    """Decides the calls of one step within one transaction. Allowed calls count against the budgets at once.

    run_id, session_id: None for a dry run, which knows nothing of what a run has read.
    """

    def __init__(
        self,
        agent_policy: AgentPolicy,
        session_policy: SessionPolicy,
        *,
        actor: str,
        run_id: UUID | None = None,
        session_id: UUID | None = None,
    ) -> None:
        self.agent_policy = agent_policy
        self.session_policy = session_policy
        self.actor = actor
        self._run_id, self._session_id = run_id, session_id
        self._letters = 0  # of the calls that it has decided
        self._stopped = emergency_stop.why_stopped(agent_policy.agent_id)
        self._is_suspect = run_id is not None and guard.has_escalated(run_id)
        self._budgets = [ActionBudget(each) for each in _chain(agent_policy)]

    def decide(self, tool: AnyTool, arguments: dict[str, Any], *, waiver: str = "") -> Verdict:
        """Return the verdict on one call. Unless it is Deny, the call counts against the budgets.

        waiver: why the call needs no approval, such as that it is itself a question to a user.
        """
        use = tool.credentials_of(arguments, self.actor)
        if why := credential_access.find_refusal(use, agent_id=self.agent_policy.agent_id, actor=self.actor):
            if self._run_id:
                credential_access.record_refusal(use, why, agent_id=self.agent_policy.agent_id, actor=self.actor)
            return Deny(why, "credentials")
        risk = tool.risk_of(arguments)
        spent = next((why for budget in self._budgets if (why := budget.refusal())), "")
        situation = Situation(self._stopped, spent, self._is_suspect, taint=self._taint_of(tool, arguments))
        verdict = self._decide(tool, arguments, risk, situation)
        if isinstance(verdict, Ask):  # grants are read only when they can matter
            granted = grants.standing_patterns(self.agent_policy.agent_id)
            for_run = grants.run_patterns(self._run_id) if self._run_id else ()
            if for_run and not self._may_repeat(tool, arguments):
                for_run = ()
            if granted or for_run:
                verdict = self._decide(tool, arguments, risk, replace(situation, grants=granted, run_grants=for_run))
        if isinstance(verdict, Ask) and waiver:
            verdict = Allow(waiver, "question")
        if isinstance(verdict, Ask):
            verdict = replace(verdict, origins=self._origins)
        elif isinstance(verdict, Allow) and verdict.reason in (taint.FOLLOWED, taint.CHOSEN):
            self._count_choice(tool, arguments)
        if not isinstance(verdict, Deny):
            for budget in self._budgets:
                budget.take()
        return verdict

    def propose(self, tool: AnyTool, arguments: dict[str, Any]) -> Proposal:
        """Return the patterns that an approver may allow beyond this call."""
        labels = tool.credentials_of(arguments, self.actor).labels
        return propose(PolicyCall(tool.spec, arguments, self.agent_policy.workspace, os.path.realpath, labels))

    @cached_property
    def _origins(self) -> tuple[str, ...]:
        return readings.list_origins(self._session_id) if self._session_id else ()

    def _taint_of(self, tool: AnyTool, arguments: dict[str, Any]) -> Taint | None:
        """Return the taint of the run, or None if the call carries nothing out, or to places that the rules name."""
        if self._run_id is None or self._session_id is None:
            return None
        egress = taint.find_egress(PolicyCall(tool.spec, arguments))
        if egress is None or taint.is_allowed(egress, self.agent_policy) or not self._origins:
            return None
        found = readings.load_taint(self._session_id, self._run_id, self._origins, egress)
        # Whoever allows a search for the rest of the run does not allow another tool that changes something.
        allowed = found.allowed if tool.effect_of(arguments) is Effect.READ else frozenset()
        return replace(found, letters=found.letters + self._letters, allowed=allowed)

    def _may_repeat(self, tool: AnyTool, arguments: dict[str, Any]) -> bool:
        """Return whether permissions for the run may cover the call."""
        if tool.effect_of(arguments) is Effect.READ or not self._session_id or not self._run_id or not self._origins:
            return True
        return readings.is_known(tool.spec.name, arguments, session_id=self._session_id, run_id=self._run_id)

    def _count_choice(self, tool: AnyTool, arguments: dict[str, Any]) -> None:
        self._letters += taint.count_letters(PolicyCall(tool.spec, arguments))

    def _decide(self, tool: AnyTool, arguments: dict[str, Any], risk: Risk, situation: Situation) -> Verdict:
        labels = tool.credentials_of(arguments, self.actor).labels
        call = PolicyCall(tool.spec, arguments, follow=os.path.realpath, credentials=labels)
        return decide(call, risk, self.agent_policy, self.actor, self.session_policy, situation)


def _chain(agent_policy: AgentPolicy | None) -> list[AgentPolicy]:
    """Return the policy and those that enclose it."""
    chain = []
    while agent_policy is not None:
        chain.append(agent_policy)
        agent_policy = agent_policy.within
    return chain
