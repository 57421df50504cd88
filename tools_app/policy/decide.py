"""Decides whether a tool call is allowed, needs approval or is denied. Pure.

Order: denials (emergency stop, session, lists, hosts and paths, autonomy, budgets), rules that always require approval,
calls allowed in advance, the agent's autonomy. A rule that cannot be parsed denies.
"""

from dataclasses import dataclass, replace

from tools_app.policy import patterns, taint, targets
from tools_app.policy.globs import PatternError
from tools_app.policy.patterns import PolicyCall
from tools_app.policy.rules import AgentPolicy, SessionPolicy
from tools_app.policy.taint import Taint
from tools_app.types import Effect, Risk, TargetKind, ToolSpec

AUTONOMY = ("readonly", "supervised", "full")
OPEN_SESSION = SessionPolicy()
_TWO = "Two people must allow a call of high risk of this agent."


@dataclass(frozen=True)
class Allow:
    """The call may be made. rule: name of the rule that decided, for operators, such as `autoApprove: echo`."""

    reason: str
    rule: str = ""


@dataclass(frozen=True)
class Ask:
    """The call needs approval.

    is_standing: a permanent grant would apply the next time.
    origins: what the run has read from outside, see `taint`.
    needs_two: two people must allow it.
    """

    reason: str
    rule: str = ""
    is_standing: bool = True
    origins: tuple[str, ...] = ()
    needs_two: bool = False


@dataclass(frozen=True)
class Deny:
    reason: str
    rule: str = ""


Verdict = Allow | Ask | Deny


@dataclass(frozen=True)
class Situation:
    """State at the time of the call.

    stopped: why the agent must not act; empty if it may.
    spent: why the budgets deny the call; empty if they allow it.
    is_suspect: the run has read text that looks like a prompt injection.
    grants, run_grants: patterns allowed for the agent permanently, and for this run.
    taint: taint of the run, if it has read content from outside and the call would send data out.
    """

    stopped: str = ""
    spent: str = ""
    is_suspect: bool = False
    grants: tuple[str, ...] = ()
    run_grants: tuple[str, ...] = ()
    taint: Taint | None = None


NO_SITUATION = Situation()


def decide(
    call: PolicyCall,
    risk: Risk,
    agent_policy: AgentPolicy,
    actor: str,
    session_policy: SessionPolicy = OPEN_SESSION,
    situation: Situation = NO_SITUATION,
) -> Verdict:
    """Return the verdict on a call by `actor` through an agent with this policy.

    call: its arguments are valid for the tool's parameters; its workspace is replaced by the policy's.
    risk: risk of this call, as the tool rates its arguments.
    The verdict's reason is one sentence for the model, the audit log and operators.
    """
    call = replace(call, workspace=agent_policy.workspace)
    try:
        verdict = (
            _refuse(call, agent_policy, actor, session_policy, situation)
            or _must_ask(call, risk, agent_policy, situation)
            or _allowed_before(call, agent_policy, situation)
            or _by_autonomy(risk, agent_policy, session_policy)
        )
    except PatternError as error:
        return _unreadable(error)
    if isinstance(verdict, Allow) and situation.taint:
        verdict = Allow(taint.find_free_choice(call, agent_policy, situation.taint) or verdict.reason, verdict.rule)
    if agent_policy.needs_two and risk is Risk.HIGH and not isinstance(verdict, Deny):
        verdict = _ask_two(verdict)
    if agent_policy.within is None or isinstance(verdict, Deny):
        return verdict
    is_same = agent_policy.within.agent_id == agent_policy.agent_id
    above = situation if is_same else replace(situation, grants=())  # grants are for one agent
    wider = decide(call, risk, agent_policy.within, actor, session_policy, above)
    if isinstance(wider, Ask) and not is_same:
        wider = replace(wider, is_standing=False)
    if isinstance(wider, Ask) and isinstance(verdict, Ask) and verdict.needs_two and not wider.needs_two:
        return _ask_two(wider)
    return verdict if isinstance(wider, Allow) else wider


def _ask_two(verdict: Allow | Ask) -> Ask:
    """Return the question to two people. No rule and no grant answers it in advance."""
    if isinstance(verdict, Allow):
        return Ask(_TWO, "two approvers", is_standing=False, needs_two=True)
    return replace(verdict, reason=f"{_TWO} {verdict.reason}", is_standing=False, needs_two=True)


def refuse_tool(spec: ToolSpec, agent_policy: AgentPolicy, session_policy: SessionPolicy = OPEN_SESSION) -> Deny | None:
    """Return the denial of every call of this tool, whatever its arguments, or None."""
    try:
        refusal = _refuse_tool(spec, agent_policy, session_policy)
    except PatternError as error:
        return _unreadable(error)
    if refusal is None and agent_policy.within:
        return refuse_tool(spec, agent_policy.within, session_policy)
    return refusal


def _refuse_tool(spec: ToolSpec, agent_policy: AgentPolicy, session_policy: SessionPolicy) -> Deny | None:
    if agent_policy.autonomy not in AUTONOMY:
        return Deny(f"The agent's autonomy {agent_policy.autonomy!r} is not known.", "autonomy")
    if agent_policy.tools is not None and spec.name not in agent_policy.tools:
        return Deny(f"The tool {spec.name} is not enabled for this agent.", "enabledTools")
    if spec.server and agent_policy.mcp_servers is not None and spec.server not in agent_policy.mcp_servers:
        return Deny(f"The MCP server {spec.server} is not enabled for this agent.", "mcpServers")
    if session_policy.tools is not None and spec.name not in session_policy.tools:
        return Deny(f"The tool {spec.name} is not among those that the message allows.", "message: tools")
    if spec.server and session_policy.mcp_servers is not None and spec.server not in session_policy.mcp_servers:
        return Deny(f"The MCP server {spec.server} is not among those that the message allows.", "message: mcpServers")
    if agent_policy.allowed and not any(patterns.parse(text).tool.matches(spec.name) for text in agent_policy.allowed):
        return Deny(f"The tool {spec.name} is not among the tools that this agent may use.", "allowedTools")
    for name, denied in (("deniedTools", agent_policy.denied), ("session: deniedTools", session_policy.denied)):
        for text in denied:
            pattern = patterns.parse(text)
            if not pattern.is_about_arguments and pattern.refuses(PolicyCall(spec, {})):
                return Deny(f"The tool {spec.name} is denied by the rule {text}.", f"{name}: {text}")
    if spec.reaches and (refusal := refuse_url(agent_policy, spec.reaches)):
        return refusal
    if spec.effect is not Effect.READ and session_policy.is_readonly:
        return Deny(f"This session is read-only and the tool {spec.name} may change something.", "session: readonly")
    if spec.effect is not Effect.READ and agent_policy.autonomy == "readonly":
        return Deny(f"The agent is read-only and the tool {spec.name} may change something.", "autonomy: readonly")
    return None


def _unreadable(error: PatternError) -> Deny:
    return Deny(f"A rule of this agent cannot be parsed, so nothing is allowed. {error}", "unreadable rule")


def narrow(agent_policy: AgentPolicy, to: AgentPolicy) -> AgentPolicy:
    """Return the policy of a sub-agent: `to`, limited to what the parent agent may do, in the parent's folder."""
    return replace(to, within=agent_policy, workspace=agent_policy.workspace)


def refuse_url(agent_policy: AgentPolicy, text: str) -> Deny | None:
    """Return the denial of a URL by the rules about hosts, or None. Tools also call it for redirects."""
    for suspect in targets.suspect_urls(text) if agent_policy.denied_hosts else ():
        if denied := patterns.find_host(agent_policy.denied_hosts, suspect):
            return Deny(f"The host {suspect.host} is denied by the rule {denied}.", f"deniedHosts: {denied}")
    if agent_policy.allowed_hosts:
        url = targets.read_url(text)
        if url is None:
            return Deny("The URL cannot be parsed, so its host cannot be allowed. Write it plainly.", "allowedHosts")
        if not patterns.find_host(agent_policy.allowed_hosts, url):
            return Deny(f"The host {url.host} is not among those that this agent may reach.", "allowedHosts")
    return refuse_url(agent_policy.within, text) if agent_policy.within else None


def _refuse(
    call: PolicyCall, agent_policy: AgentPolicy, actor: str, session_policy: SessionPolicy, situation: Situation
) -> Deny | None:
    if situation.stopped:
        return Deny(situation.stopped, "emergency stop")
    if not actor:
        return Deny("The actor of this call is unknown.", "actor")
    if refusal := refuse_tool(call.spec, agent_policy, session_policy):
        return refusal
    for name, denied in (("deniedTools", agent_policy.denied), ("session: deniedTools", session_policy.denied)):
        if text := patterns.find_refusing(denied, call):
            return Deny(f"The call is denied by the rule {text}.", f"{name}: {text}")
    if agent_policy.allowed and not patterns.find_permitting(agent_policy.allowed, replace(call, credentials=())):
        return Deny(f"No rule allows this agent to make this call of {call.spec.name}.", "allowedTools")
    refusal = _refuse_targets(call, agent_policy)
    if refusal is None and situation.spent:
        return Deny(situation.spent, "budgets")
    return refusal


def _refuse_targets(call: PolicyCall, agent_policy: AgentPolicy) -> Deny | None:
    kinds = targets.targets_of(call.spec)
    for name, kind in kinds.items():
        for text in targets.texts_in(call.value(name)):
            if kind is TargetKind.URL:
                refusal = refuse_url(agent_policy, text)
                if refusal is not None:
                    return refusal
            elif targets.read_path(text, call.workspace, call.follow) is None:
                return Deny(f"The path in {name} is outside of the agent's folder, or is not written plainly.", "paths")
    if not agent_policy.denied_hosts:
        return None
    # A tool may not declare which of its arguments are URLs.
    denying = replace(agent_policy, allowed_hosts=())
    urls = (text for text in targets.texts_in(call.arguments) if targets.is_url_like(text))
    return next((refusal for text in urls if (refusal := refuse_url(denying, text))), None)


def _must_ask(call: PolicyCall, risk: Risk, agent_policy: AgentPolicy, situation: Situation) -> Verdict | None:
    """Return the verdict of rules that always require approval. Only a grant for this run satisfies them."""
    if text := patterns.find_refusing(agent_policy.always_ask, call):
        asks = Ask(f"This agent asks before every call of {text}.", f"alwaysAsk: {text}", is_standing=False)
    elif situation.is_suspect and (risk is not Risk.LOW or taint.sends_values(call)):
        reason = "The run has read text that looks like a prompt injection."
        asks = Ask(reason, "injection guard", is_standing=False)
    elif situation.taint:
        return _by_taint(call, agent_policy, situation, situation.taint)
    else:
        return None
    granted = patterns.find_permitting(situation.run_grants, call)
    return Allow(f"A user allowed {granted} for this run.", f"run grant: {granted}") if granted else asks


def _by_taint(call: PolicyCall, agent_policy: AgentPolicy, situation: Situation, tainted: Taint) -> Ask | None:
    """Return the question about data that may leave, or None if somebody has named where it goes."""
    unknown = taint.find_unknown(call, agent_policy, tainted)
    if not unknown or taint.find_free_choice(call, agent_policy, tainted):
        return None
    named = (text for text in (*agent_policy.auto_approve, *situation.grants) if taint.binds_destination(text, call))
    if patterns.find_permitting((*situation.run_grants, *named), call):
        return None
    return Ask(taint.reason(tainted.origins, unknown[0]), "taint", origins=tainted.origins)


def _allowed_before(call: PolicyCall, agent_policy: AgentPolicy, situation: Situation) -> Allow | None:
    if text := patterns.find_permitting(agent_policy.auto_approve, call):
        return Allow(f"The rule {text} approves the call.", f"autoApprove: {text}")
    if text := patterns.find_permitting(situation.run_grants, call):
        return Allow(f"A user allowed {text} for this run.", f"run grant: {text}")
    if text := patterns.find_permitting(situation.grants, call):
        return Allow(f"A user allowed {text} permanently.", f"grant: {text}")
    return None


def _by_autonomy(risk: Risk, agent_policy: AgentPolicy, session_policy: SessionPolicy) -> Verdict:
    rule = f"autonomy: {agent_policy.autonomy}"
    if agent_policy.autonomy == "readonly":
        return Allow("The agent is read-only and the tool only reads.", rule)
    if agent_policy.autonomy == "full" and not session_policy.is_supervised:
        return Allow("The agent has full autonomy.", rule)
    if risk is Risk.LOW:
        return Allow("The call is of low risk.", rule)
    return Ask(f"{risk.capitalize()}-risk calls of this agent need approval.", rule)
