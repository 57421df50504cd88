"""The pages: a session, a new chat; and fragments: older turns, files, the list of sessions."""

from collections.abc import Mapping
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils import timezone

from agents_app import selectors as agents
from agents_app import services as runs
from agents_app.providers.connection import may_connect
from audit_app.kernel.errors import InvalidInput, NotFound
from audit_app.kernel.ids import new_id
from sessions_app import selectors
from sessions_app.access import access_run, access_session
from sessions_app.approvals import permissions
from sessions_app.channels.command_list import PAGE_COMMANDS
from sessions_app.conversation import list_marks
from sessions_app.conversation.session_key import STORED_CHANNELS
from sessions_app.identity.actor_names import display_name
from sessions_app.live_view.viewer import cursor_now
from sessions_app.models import Session
from sessions_app.services import LONGEST_TEXT
from sessions_app.surfaces.base.pages import PageRequest, page
from sessions_app.surfaces.chat import agent_menu, labels, queries
from sessions_app.surfaces.chat.session_files import read_files
from sessions_app.surfaces.chat.sidebar import count_asking, read_days, title_of
from sessions_app.surfaces.chat.team_tree import read_team_tree
from tools_app import conf
from tools_app.storage import artifacts

_DEFAULT_AGENT = "default"


@page("GET")
def home(request: PageRequest) -> HttpResponse:
    """Redirect to the newest session, or to a new chat if there is none."""
    newest = selectors.list_sessions(request.user, limit=1)
    return HttpResponseRedirect(f"/chat/{newest[0].id}" if newest else "/chat/new")


@page("GET")
def new_chat(request: PageRequest) -> HttpResponse:
    """Show an empty chat. Its session is created with the first message."""
    wanted = request.GET.get("agent", _DEFAULT_AGENT)
    is_draft = bool(request.GET.get("draft"))
    title = "Try the draft" if is_draft else "New chat"
    context = {"is_new": True, "agent_id": wanted, "title": title, "tries_draft": is_draft}
    return _chat(request, context, None)


@page("GET")
def session(request: PageRequest, session_id: UUID) -> HttpResponse:
    """Show one session with its newest turns and open runs, down to the run `at` if the request names one.

    Of one that does not exist, or is another user's, say that it is gone, with the user's other chats.
    """
    try:
        found = access_session(request.user, session_id)
    except NotFound:
        return render(request, "chat/gone.html", {"days": read_days(request)}, status=404)
    if list_marks.is_unread(found):
        list_marks.mark_session(found, is_read=True)
    # The cursor first: events during the reads below are then sent again, which changes nothing.
    cursor = cursor_now(found.id)
    decisions = permissions.allowed_decisions(request.user, found.owner_id)
    newest = queries.read_newest(found, allowed_decisions=decisions, down_to=_id_in(request, "at"))
    newest = queries.with_ratings(newest, request.user)
    context = {
        "session": found,
        "title": title_of(found),
        "agent_id": found.agent.agent_id,
        "cursor": cursor,
        "may_branch": found.channel in STORED_CHANNELS,
        "busy": found.agent.busy_policy,
        "page": newest,
        "is_new": not newest.turn_views,
        "files_count": artifacts.count_artifacts(found.id),
    }
    return _chat(request, context, found)


@page("GET")
def older_turns(request: PageRequest, session_id: UUID) -> HttpResponse:
    """Return a fragment with the turns before those shown."""
    found = access_session(request.user, session_id)
    try:
        before = int(request.GET["before"])
    except (KeyError, ValueError):
        raise InvalidInput("`before` must be a number: the ordinal of the oldest turn shown.") from None
    page_of = queries.with_ratings(queries.read_older(found, max(0, min(before, 2**31 - 1))), request.user)
    return render(request, "chat/_turns.html", {"session": found, "page": page_of, "are_earlier": True})


@page("GET")
def details(request: PageRequest, run_id: UUID) -> HttpResponse:
    """Return a fragment with the model, the time, the tokens and the cost of an answer."""
    access_run(request.user, run_id)
    return render(request, "chat/_details.html", {"shown": read_details(run_id)})


@page("GET")
def files(request: PageRequest, session_id: UUID) -> HttpResponse:
    """Return a fragment with the files of a session."""
    return render(request, "chat/_files.html", {"files": read_files(access_session(request.user, session_id).id)})


@page("GET")
def workstreams(request: PageRequest, session_id: UUID) -> HttpResponse:
    """Return a fragment with the tree of the session's workstreams."""
    found = access_session(request.user, session_id)
    return render(request, "chat/_team.html", {"session": found, "tree": read_team_tree(found, timezone.now())})


@page("GET")
def context(request: PageRequest, session_id: UUID) -> HttpResponse:
    """Return a fragment with the use of the model's context by a session."""
    found = access_session(request.user, session_id)
    usage = runs.context_usage(found.agent, found.id, found.next_ordinal)
    labelled = {
        "Instructions": usage.system,
        "Tools": usage.tools,
        "Summary": usage.summary,
        "Pinned messages": usage.pinned,
        "Earlier messages": usage.history,
        "Last message and answer": usage.newest,
        "Together": usage.used,
        "Limit": usage.budget,
    }
    parts = [(label, f"{size:,}") for label, size in labelled.items() if size]
    return render(request, "chat/_context.html", {"session": found, "usage": usage, "parts": parts})


@page("GET")
def sessions(request: PageRequest) -> HttpResponse:
    """Return a fragment with the list of sessions, filtered by the words `q` in their titles and messages.

    A browser that opens it as a page is sent to one with the same list.
    """
    query = request.GET.get("q", "").strip()
    if not request.htmx:
        return HttpResponseRedirect(f"/chat/new?{urlencode({'q': query})}")
    days = read_days(request, current=_id_in(request, "current"), query=query)
    shown = {"days": days, "asking": count_asking(days), "query": query}
    return render(request, "chat/_sessions.html", shown)


@page("GET")
def search_agents(request: PageRequest) -> HttpResponse:
    """Return a fragment with the agents that match the words `q`, those that the user has used last first."""
    query = request.GET.get("q", "").strip()
    if not request.htmx:
        return HttpResponseRedirect("/chat/new")
    found = agent_menu.search_agents(request.user, query)
    return render(request, "chat/_agents.html", {"agents": found, "query": query, "most": agent_menu.MOST_FOUND})


def _chat(request: PageRequest, context: Mapping[str, object], current: Session | None) -> HttpResponse:
    query = request.GET.get("q", "").strip()  # of a search on a page without scripts
    days = read_days(request, current=current.id if current else None, query=query)
    menu = agent_menu.read_menu(request.user, str(context["agent_id"]), current.agent if current else None)
    shared = {
        "days": days,
        "asking": count_asking(days),
        "query": query,
        "menu": menu,
        "may_connect": bool(context["is_new"]) and menu.is_demo_only and may_connect(request.user),
        "chosen": menu.chosen(str(context["agent_id"])),
        "commands": PAGE_COMMANDS,
        "longest_text": LONGEST_TEXT,
        "most_files": settings.KOMAND_MESSAGE_FILES,
        "largest_file": conf.artifact_limits()[0],
        "user_name": display_name(request.user),
        "message_key": new_id(),  # for a message sent before the scripts are loaded
    }
    response = render(request, "chat/chat.html", {**context, **shared})
    if menu.takes_dictation:
        policy = settings.KOMAND_PERMISSIONS_POLICY
        response.headers["Permissions-Policy"] = policy.replace("microphone=()", "microphone=(self)")
    return response


def _id_in(request: PageRequest, parameter: str) -> UUID | None:
    try:
        return UUID(request.GET.get(parameter, ""))
    except ValueError:
        return None


def read_details(run_id: UUID) -> list[tuple[str, str]]:
    """Return labels and values. Raises NotFound."""
    found = agents.get_cost(run_id)
    rows = [
        ("Model", ", ".join(found.models)),
        ("Time", labels.duration(found.seconds)),
        ("Input", _tokens(found.usage.input_tokens)),
        ("Output", _tokens(found.usage.output_tokens)),
        ("Cost", labels.cost(found.cost)),
    ]
    if tree := found.with_workstreams:
        tokens = tree.usage.input_tokens + tree.usage.output_tokens
        rows += [("With its workstreams", _tokens(tokens)), ("Their cost together", labels.cost(tree.cost))]
    return [(label, value) for label, value in rows if value]


def _tokens(count: int) -> str:
    return f"{count:,} token{'' if count == 1 else 's'}" if count else ""
