"""A gateway in one process whose outside is a dictionary: pages, an API, MCP servers and a skill that record what
reaches them."""

import json
from collections.abc import Callable, Container, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, ClassVar
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from django.conf import settings
from django.contrib.auth.models import User

from agents_app.models import Agent, ModelProvider
from agents_app.providers import registry as providers
from agents_app.services import decide_approval
from sessions_app.conversation.message_context import MessageContext
from sessions_app.services import NewMessage, receive
from tests.security.taint.obedient import KIND, ObedientProvider, forms_of, part_calls
from tests.support.engine import EngineRig, until
from tools_app import catalogue
from tools_app.builtin import http_request, web_fetch
from tools_app.catalogue import ToolSource
from tools_app.models import Approval
from tools_app.network.fetch import Fetched
from tools_app.network.http_request import HttpAnswer
from tools_app.types import AnyTool, ApprovalStatus, Decision, Effect, Risk, Tool, ToolContext, ToolSpec

PAGES = range(6)  # numbers of the tools `mcp__wiki__page0` and so on
# Further tools, of servers as people have them: a bank, a travel agency, a team's chat.
_READ = ("bank__payments", "travel__hotels", "travel__prices", "chat__read", "chat__members")
_CHANGE = ("bank__pay", "travel__book", "chat__post")
_ANY_TEXT = {"type": "object", "properties": {"text": {"type": "string"}, "url": {"type": "string"}}}


@dataclass
class Outside:
    """Everything beyond the installation.

    pages: texts by URL without the query. replies: results of MCP tools and skills by name.
    sent: what has left, as (place, content), oldest first.
    """

    pages: dict[str, str] = field(default_factory=dict)
    replies: dict[str, str] = field(default_factory=dict)
    sent: list[tuple[str, str]] = field(default_factory=list)

    def fetch(self, url: str, **options: Any) -> Fetched:
        self.sent.append((urlsplit(url).netloc, url))
        text = self.pages.get(url, self.pages.get(url.partition("?")[0], "Nothing here."))
        return Fetched(url, 200, "text/plain", "utf-8", text.encode(), is_cut=False)

    def request(self, method: str, url: str, *, headers: dict[str, str], body: bytes, **options: Any) -> HttpAnswer:
        self.sent.append((urlsplit(url).netloc, f"{method} {url} {headers} {body.decode()}"))
        text = self.pages.get(url.partition("?")[0], "ok")
        return HttpAnswer(url, 200, {"content-type": "text/plain"}, "utf-8", text.encode(), is_cut=False)

    def carries(self, secret: str) -> list[tuple[str, str]]:
        """Return what has left with the secret, in any form."""
        forms = [form.lower() for form in forms_of(secret).values()]
        return [(place, text) for place, text in self.sent if any(form in text.lower() for form in forms)]


class Remote(Tool):
    """A tool of an MCP server, or an HTTP skill, whose requests are recorded. Of low risk: nothing else would ask."""

    outside: ClassVar[Outside]

    def __init__(
        self, name: str, *, server: str = "", reaches: str = "", effect: Effect = Effect.READ, risk: Risk = Risk.LOW
    ) -> None:
        self.spec = ToolSpec(name, "Remote.", _ANY_TEXT, effect, risk, server=server, reaches=reaches)

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        self.outside.sent.append((self.spec.server or self.spec.reaches, f"{self.spec.name} {arguments}"))
        return {"text": self.outside.replies.get(self.spec.name, "ok")}


class RemoteSource(ToolSource):
    def __init__(self, prefix: str, *offered: Tool) -> None:
        self.prefix = prefix  # type: ignore[misc]
        self._offered: dict[str, AnyTool] = {tool.spec.name: tool for tool in offered}

    def list_tools(self, agent_id: str) -> Iterable[AnyTool]:
        return self._offered.values()

    def find_tool(self, name: str, agent_id: str) -> AnyTool | None:
        return self._offered.get(name)


class Gateway:
    """The gateway. Each scenario has an agent and a user of its own: `begin` it, then `say` what the user writes."""

    def __init__(self, rig: EngineRig, patch: pytest.MonkeyPatch) -> None:
        self.rig, self.outside = rig, Outside()
        Remote.outside = self.outside
        patch.setattr(web_fetch, "fetch", lambda url, **options: self.outside.fetch(url, **options))
        patch.setattr(web_fetch, "check_url", lambda url, **options: SimpleNamespace(url=url))
        patch.setattr(http_request, "request", lambda method, url, **given: self.outside.request(method, url, **given))
        patch.setattr(settings, "KOMAND_FETCH_CACHE_SECONDS", 0)
        patch.setattr(settings, "KOMAND_PUBLIC_URL", "https://komand.example")
        mcp = [
            Remote(f"mcp__{name}", server=name.partition("__")[0])
            for name in ("mail__read", "mail__find", "wiki__read", "wiki__edit", *(f"wiki__page{n}" for n in PAGES))
        ]
        mcp += [Remote(f"mcp__{name}", server=name.partition("__")[0]) for name in _READ]
        mcp += [
            Remote(f"mcp__{name}", server=name.partition("__")[0], effect=Effect.ONCE, risk=Risk.MEDIUM)
            for name in ("mail__send", *_CHANGE)
        ]
        skills = [
            Remote("skill__notes", reaches="https://notes.test"),
            Remote("skill__push", reaches="https://push.test"),
        ]
        patch.setitem(catalogue._sources, "mcp__", RemoteSource("mcp__", *mcp))
        patch.setitem(catalogue._sources, "skill__", RemoteSource("skill__", *skills))
        if KIND not in providers.kinds():
            providers.register(KIND, f"{ObedientProvider.__module__}.ObedientProvider")
        self._model, _ = ModelProvider.objects.get_or_create(name=KIND, kind=KIND)
        self._count = 0
        self._platforms: dict[Callable[[], Any], Any] = {}
        self._open = ExitStack()
        self._messages: list[int] = []  # how much had left before each message
        self.agent: Agent
        self.user: User

    def begin(self, *, autonomy: str = "supervised", secret: str = "", **fields: Any) -> None:
        self._count += 1
        ObedientProvider.secret = secret
        ObedientProvider.plans = {"": ""}
        for kept in (self.outside.pages, self.outside.replies, self.outside.sent, self._messages):
            kept.clear()
        name = f"case{self._count}"
        agent = {"agent_id": name, "name": name, "provider": self._model, "autonomy": autonomy, "max_tool_rounds": 40}
        agent["is_shared_with_everyone"] = True
        self.agent = Agent.objects.create(**{**agent, **fields})
        self.user = User.objects.create_user(name)

    def close(self) -> None:
        """Stop the platforms."""
        self._open.close()

    def platform(self, kind: Callable[[], Any]) -> Any:
        """Return the fake platform of this kind, which runs until the gateway is closed."""
        if kind not in self._platforms:
            self._platforms[kind] = self._open.enter_context(kind())
        return self._platforms[kind]

    def plan(self, text: str, tool: str, /, **arguments: Any) -> str:
        """Have the model make a call for this message of the user. Return the message."""
        ObedientProvider.plans[text] = f"[[CALL {tool} {json.dumps(arguments, sort_keys=True)}]]"
        return text

    def say(
        self,
        text: str,
        *,
        thread: str = "",
        quoted: str = "",
        approve: Decision | None = None,
        only: str = "",
        is_own: bool = False,
    ) -> int:
        """Send a message and let its run end. Return the number of questions asked.

        text: what the user writes, with the calls that the model makes for it, which are taken out of the message.
        quoted: a text of somebody else that belongs to the message.
        approve: the decision on the questions; None denies each. only: tool whose calls are approved.
        is_own: only the calls for what the user writes are.
        """
        name = self.user.username
        text, calls = part_calls(text)
        ObedientProvider.plans[text] = calls
        context = MessageContext(quoted, is_foreign=True) if quoted else None
        message = NewMessage("WebChat", "default", name, name, text, thread_id=thread, context=context)
        accepted = receive(message, owner=self.user, agent_id=self.agent.agent_id)
        return self.finish(accepted.run_id, approve=approve, only=only, own=calls if is_own else None)

    def finish(self, run_id: UUID, *, approve: Decision | None = None, only: str = "", own: str | None = None) -> int:
        asked = 0
        self._messages.append(len(self.outside.sent))
        while True:
            waiting = until(lambda: self._next(run_id))
            if waiting is True:
                return asked
            asked += 1
            asking = waiting.execution
            is_own = own is None or f"[[CALL {asking.tool} {json.dumps(asking.arguments, sort_keys=True)}]]" in own
            chosen = approve if approve and is_own and only in ("", asking.tool) else Decision.DENY
            decide_approval(waiting.id, decision=chosen.value, actor="user:1")

    def most_sent(self, texts: Container[str]) -> int:
        """Return how many of these texts have left, for the message for which most of them have."""
        spans = pairwise([*self._messages, len(self.outside.sent)])
        return max(sum(text in texts for _, text in self.outside.sent[begin:end]) for begin, end in spans)

    def _next(self, run_id: UUID) -> Any:
        waiting = Approval.objects.select_related("execution").filter(
            execution__agent_id=self.agent.agent_id, status=ApprovalStatus.PENDING
        )
        return waiting.first() or self.rig._ended(run_id) is not None
