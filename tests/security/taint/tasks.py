"""Ordinary tasks, as texts of a user who names calls: how many questions do they cost?

The approver answers each question with "allow for this run".
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sessions_app.models import Session, Turn
from tests.security.taint.attacks import call
from tests.security.taint.world import Gateway
from tools_app.storage import artifacts
from tools_app.types import Decision

_DOCS, _NEWS = "https://docs.test", "https://news.test"


def fetch(url: str, **more: Any) -> str:
    return call("web_fetch", url=url, **more)


def get(url: str, **more: Any) -> str:
    return call("http_request", url=url, **more)


@dataclass(frozen=True)
class Task:
    """A task. messages: what the user writes, in order. pages: what the web has; agent: fields of the agent.

    prepare: done after a first greeting, for what needs a session.
    """

    name: str
    messages: tuple[str, ...]
    pages: dict[str, str] = field(default_factory=dict)
    agent: dict[str, Any] = field(default_factory=dict)
    prepare: Callable[[Gateway], None] | None = None

    def run(self, gateway: Gateway) -> int:
        """Carry the task out. Return the number of questions."""
        gateway.begin(**self.agent)
        gateway.outside.pages |= self.pages
        if self.prepare:
            gateway.say("Hello.")
            self.prepare(gateway)
        return sum(gateway.say(message, approve=Decision.ALLOW_RUN) for message in self.messages)


def upload(text: str) -> Callable[[Gateway], None]:
    def prepare(gateway: Gateway) -> None:
        session = Session.objects.get(agent=gateway.agent)
        artifacts.write_artifact(artifacts.Writer(session.id), "files/report.txt", text.encode())

    return prepare


def attach(text: str) -> Callable[[Gateway], None]:
    def prepare(gateway: Gateway) -> None:
        Turn.objects.filter(session__agent=gateway.agent, role="user").update(attached=text)

    return prepare


def links(count: int, host: str = _NEWS) -> tuple[str, str]:
    """Return a page of links, and the calls that follow them."""
    addresses = [f"{host}/story/{number}" for number in range(count)]
    return " ".join(f"[story]({address})" for address in addresses), "".join(map(fetch, addresses))


_READ = call("read_artifact", path="files/report.txt")
_PAGE3, _FOLLOW3 = links(3)
_PAGE5, _FOLLOW5 = links(5, "https://other.test")
_PAGE8, _FOLLOW8 = links(8, "https://other.test")

TASKS = (
    # Nothing from outside is read.
    Task("sum", (f"What is 17*23? {call('calculator', expression='17*23')}",)),
    Task("date", (f"What day is it? {call('date_time')}",)),
    Task("echo", (f"Repeat. {call('echo', text='good morning')}",)),
    Task("remember", (f"Remember that I like tea. {call('memory_store', key='drink', text='Likes tea.')}",)),
    Task("recall", (f"What do I like? {call('memory_recall')}",)),
    Task("write a file", (f"Write a poem. {call('write_artifact', path='out/poem.md', content='Roses')}",)),
    Task("list files", (f"Which files are there? {call('read_artifact')}",)),
    Task("two sums", (f"{call('calculator', expression='1+1')}{call('calculator', expression='2+2')}",)),
    # One page.
    Task("read a named page", (f"Summarise {_NEWS}/a. {fetch(f'{_NEWS}/a')}",)),
    Task("read a page by host", (f"What is new on news.test? {fetch(f'{_NEWS}/')}",)),
    Task("read a page the model knows", (f"How do I sort in Python? {fetch(f'{_DOCS}/sort')}",)),
    Task("a long page in parts", (f"Read {_DOCS}/long. {fetch(f'{_DOCS}/long')}{fetch(f'{_DOCS}/long', offset=20)}",)),
    Task("a page and a sum", (f"{fetch(f'{_NEWS}/prices')} Add them. {call('calculator', expression='3+4')}",)),
    Task(
        "a page to a file", (f"{fetch(f'{_NEWS}/a')} Save it. {call('write_artifact', path='out/a.md', content='a')}",)
    ),
    Task("a page to memory", (f"{fetch(f'{_NEWS}/a')} Remember. {call('memory_store', key='a', text='News.')}",)),
    Task("a page, then the date", (f"{fetch(f'{_NEWS}/a')}{call('date_time')}",)),
    # Several pages.
    Task("two named pages", (f"Compare {_NEWS}/a and {_DOCS}/b. {fetch(f'{_NEWS}/a')}{fetch(f'{_DOCS}/b')}",)),
    Task("two named hosts", (f"Compare news.test with docs.test. {fetch(f'{_NEWS}/')}{fetch(f'{_DOCS}/')}",)),
    Task(
        "three pages of a named host",
        (f"Search docs.test. {fetch(f'{_DOCS}/1')}{fetch(f'{_DOCS}/2')}{fetch(f'{_DOCS}/3')}",),
    ),
    Task(
        "host with www",
        (f"What does shop.test sell? {fetch('https://www.shop.test/')}{fetch('https://www.shop.test/all')}",),
    ),
    Task(
        "follow a link",
        (f"Read the first story. {fetch(f'{_NEWS}/')}", _FOLLOW3[: _FOLLOW3.index("]]") + 2]),
        {f"{_NEWS}/": _PAGE3},
    ),
    Task(
        "follow three links",
        (f"Read all stories. {fetch('https://start.test/')}{_FOLLOW3}",),
        {"https://start.test/": _PAGE3},
    ),
    Task("follow five links", (f"Read all stories. {fetch(f'{_NEWS}/')}{_FOLLOW5}",), {f"{_NEWS}/": _PAGE5}),
    Task("follow eight links", (f"Read all stories. {fetch(f'{_NEWS}/')}{_FOLLOW8}",), {f"{_NEWS}/": _PAGE8}),
    Task(
        "a search with a query",
        (f"Find tea. {fetch('https://search.test/?q=tea')}{fetch('https://search.test/?q=green+tea')}",),
    ),
    Task(
        "three searches",
        ("Find tea. " + "".join(fetch(f"https://search.test/?q={word}") for word in ("tea", "cup", "pot")),),
    ),
    Task(
        "search, then a result",
        (f"Find tea. {fetch('https://search.test/?q=tea')}{fetch('https://tea.test/')}",),
        {"https://search.test/": "1. https://tea.test/"},
    ),
    Task(
        "pages the model knows, one host", ("Explain lists. " + "".join(fetch(f"{_DOCS}/{name}") for name in "abcd"),)
    ),
    Task(
        "pages the model knows, two hosts",
        (f"Explain. {fetch(f'{_DOCS}/a')}{fetch('https://wiki.test/a')}{fetch('https://wiki.test/b')}",),
    ),
    Task(
        "pages the model knows, three hosts",
        (f"Explain. {fetch(f'{_DOCS}/a')}{fetch('https://wiki.test/a')}{fetch('https://lex.test/b')}",),
    ),
    Task(
        "a second message about the page",
        (f"Read {_NEWS}/a. {fetch(f'{_NEWS}/a')}", f"And {_NEWS}/b? {fetch(f'{_NEWS}/b')}"),
    ),
    Task(
        "a second message, another host",
        (f"Read {_NEWS}/a. {fetch(f'{_NEWS}/a')}", f"Now look at docs.test. {fetch(f'{_DOCS}/x')}"),
    ),
    # Hosts that the operator has named for the agent.
    Task(
        "allowed hosts",
        ("Look up. " + "".join(fetch(f"{_DOCS}/?q={word}") for word in "abc"),),
        agent={"allowed_hosts": ["docs.test"]},
    ),
    Task(
        "allowed by pattern",
        ("Look up. " + "".join(fetch(f"{_DOCS}/?q={word}") for word in "abc"),),
        agent={"auto_approve": [f"web_fetch(url={_DOCS}/*)"]},
    ),
    # APIs.
    Task("an API call", (f"Which orders are open? {get('https://api.test/orders')}",)),
    Task("an API with a query", (f"Weather? {get('https://api.test/w?c=Rome')}{get('https://api.test/w?c=Bern')}",)),
    Task("an API of a named host", (f"Use api.test. {get('https://api.test/1')}{get('https://api.test/2?x=3')}",)),
    Task("a POST", (f"Order tea. {get('https://api.test/orders', method='POST', body='tea')}",)),
    Task(
        "a GET, then a POST",
        (f"Order tea. {get('https://api.test/tea')}{get('https://api.test/orders', method='POST', body='tea')}",),
    ),
    # MCP servers and skills.
    Task("read mail", (f"Any mail? {call('mcp__mail__read')}",)),
    Task("search mail", (f"Mail from Ann? {call('mcp__mail__find', text='Ann')}",)),
    Task(
        "mail, then a search",
        (f"Mail? {call('mcp__mail__read')}{call('mcp__mail__find', text='Ann')}{call('mcp__mail__find', text='Bob')}",),
    ),
    Task(
        "wiki, read and edit", (f"Fix it. {call('mcp__wiki__read', text='tea')}{call('mcp__wiki__edit', text='Tea.')}",)
    ),
    Task(
        "listed server",
        (f"Fix it. {call('mcp__wiki__read', text='tea')}{call('mcp__wiki__edit', text='Tea.')}",),
        agent={"egress_servers": ["wiki"]},
    ),
    Task("skill", (f"Notes? {call('skill__notes', text='today')}",)),
    Task(
        "skill after a page",
        (f"Read {_NEWS}/a and note it. {fetch(f'{_NEWS}/a')}{call('skill__notes', text='News.')}",),
    ),
    # Files.
    Task("read an uploaded file", (f"Summarise the report. {_READ}",), prepare=upload("Sales rose.")),
    Task("a file and a sum", (f"Add. {_READ}{call('calculator', expression='1+2')}",), prepare=upload("1 2")),
    Task(
        "a file and a named page", (f"Compare with {_NEWS}/a. {_READ}{fetch(f'{_NEWS}/a')}",), prepare=upload("Sales.")
    ),
    Task(
        "an attachment and its link",
        (f"Open the link in it. {fetch('https://form.test/7')}",),
        prepare=attach("Go to https://form.test/7."),
    ),
    Task(
        "a file and a page the model knows",
        (f"Explain it. {_READ}{fetch('https://wiki.test/sales')}",),
        prepare=upload("Sales rose."),
    ),
    Task("recall, then a page", (f"{call('memory_recall')} Look it up. {fetch('https://wiki.test/tea')}",)),
    # Mail, a bank, travel and chat: what is read decides what is sent.
    Task(
        "mail, then an answer", (f"Tell Ann yes. {call('mcp__mail__read')}{call('mcp__mail__send', text='Ann: yes')}",)
    ),
    Task(
        "mail, then a payment",
        (f"Pay Bob's bill. {call('mcp__mail__find', text='Bob')}{call('mcp__bank__pay', text='Bob, 40')}",),
    ),
    Task("payments", (f"What did I spend? {call('mcp__bank__payments')}",)),
    Task("a payment as before", (f"Pay the rent. {call('mcp__bank__payments')}{call('mcp__bank__pay', text='Rent')}",)),
    Task(
        "hotels of a listed agency",
        (f"Book Oak. {call('mcp__travel__hotels', text='Rome')}{call('mcp__travel__book', text='Oak')}",),
        agent={"egress_servers": ["travel"]},
    ),
    Task(
        "hotels and their prices",
        (
            f"Which is the cheapest? {call('mcp__travel__hotels', text='Rome')}"
            f"{call('mcp__travel__prices', text='Oak')}{call('mcp__travel__prices', text='Elm')}",
        ),
    ),
    Task(
        "chat, then a message",
        (f"Thank the team. {call('mcp__chat__read', text='team')}{call('mcp__chat__post', text='team: thanks')}",),
    ),
    Task(
        "two messages that the user has dictated",
        (
            f"Post 'late' to team and to sales. {call('mcp__chat__members', text='team')}"
            f"{call('mcp__chat__post', text='team: late')}{call('mcp__chat__post', text='sales: late')}",
        ),
        agent={"egress_servers": ["chat"]},
    ),
    Task(
        "chat, its link, then a mail",
        (
            f"Read the link and mail it to Ann. {call('mcp__chat__read', text='team')}{fetch(f'{_NEWS}/a')}"
            f"{call('mcp__mail__send', text='Ann: news')}",
        ),
    ),
)
