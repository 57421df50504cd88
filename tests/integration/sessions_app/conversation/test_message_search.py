"""Search in the messages and titles of the user's sessions."""

from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from audit_app.full_text import index
from audit_app.full_text.query import parse
from audit_app.kernel.errors import InvalidInput
from audit_app.kernel.ids import first_id_at
from audit_app.models import SearchEntry, SearchProgress
from sessions_app import services
from sessions_app.conversation import message_index, message_search
from sessions_app.conversation.message_search import search_messages, search_sessions
from sessions_app.models import Session, Turn
from tests.support.rest import RestCaller, make_run, make_session, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    return make_user("ada")


def session_with(owner: User, *texts: str, title: str = "", role: str = "assistant", **columns: object) -> Session:
    """Return a session with these messages, which the search finds."""
    session = make_session(owner, key=f"WebChat:default:{owner.pk}:{Session.objects.count()}")
    Session.objects.filter(pk=session.pk).update(title=title)
    for ordinal, text in enumerate(texts):
        turn = {"session": session, "ordinal": ordinal, "part": 0, "created_at": timezone.now(), **columns}
        Turn.objects.create(**turn, role=role, content=text)
    message_index.catch_up()
    return session


def found(owner: User, query: str) -> list[str]:
    return [match.session.title for match in search_sessions(owner, query, limit=10)]


def texts_of(owner: User, query: str) -> list[str]:
    messages = search_messages(owner, query, limit=10).messages
    return [Turn.objects.get(pk=message.turn_id).content for message in messages]


def test_sessions_are_found_by_all_words_of_a_message_or_title(user: User) -> None:
    session_with(user, "The heron stands in the reeds.", "It flies away.", title="Birds")
    session_with(user, "A heron.", "The reeds.", title="Two messages")
    session_with(user, "Nothing of it.", title="A heron in the title, and reeds")
    assert found(user, "REEDS heron") == ["A heron in the title, and reeds", "Birds"]
    assert found(user, "crocodile") == []


def test_a_renamed_session_is_found_by_its_new_title(user: User) -> None:
    session = session_with(user, "Nothing of it.", title="Herons")
    services.rename_session(session, "Storks")
    assert (found(user, "storks"), found(user, "herons")) == (["Storks"], [])


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Die Größe der Brücke", "brucke GROSSE"),
        ("我在東京都工作", "東京"),
        ("It calls memory_store with sendMessage", "store message"),
        ("It costs 100% of 'it' \\ or :* & | ! <-> (", "100 costs"),
        ("an e-mail came", '"e-mail came"'),
    ],
)
def test_messages_of_any_language_are_found(user: User, text: str, query: str) -> None:
    session_with(user, text, "another message", title="Here")
    assert texts_of(user, query) == [text]


@pytest.mark.parametrize("query", ['"', "-", "' OR 1", "a* NEAR(", "scope : x", "\0", ":* & !", "-heron", "%", "😀"])
def test_what_is_typed_is_never_a_syntax_error(user: User, query: str) -> None:
    session_with(user, "The heron.", title="Birds")
    assert texts_of(user, query) == []


def test_the_words_with_most_weight_and_newer_messages_come_first(user: User) -> None:
    session_with(user, "heron once, and many other words that have nothing to do with it", title="a")
    session_with(user, "heron heron heron", title="b")
    assert texts_of(user, "heron")[0] == "heron heron heron"
    session_with(user, "heron heron heron!", title="c")
    Turn.objects.filter(content="heron heron heron").update(created_at=timezone.now() - timedelta(days=365))
    assert texts_of(user, "heron")[0] == "heron heron heron!"


def test_a_cursor_reaches_every_match_once(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_search, "WINDOW", 4)
    session_with(user, *(f"heron number {number}" for number in range(10)))
    seen, cursor = [], ""
    for _ in range(9):
        page = search_messages(user, "heron", limit=3, cursor=cursor)
        seen += [message.excerpt for message in page.messages]
        if not (cursor := page.cursor):
            break
    assert sorted(seen) == sorted(f"heron number {number}" for number in range(10))
    for wrong in ("x", "1", "1.x", f"{2**70}.0", "1.-1"):
        with pytest.raises(InvalidInput):
            search_messages(user, "heron", limit=3, cursor=wrong)


def test_only_the_users_own_sessions_are_searched(user: User) -> None:
    session_with(make_user("eve"), "The heron of Eve", title="Eve's heron")
    deleted = session_with(user, "The deleted heron", title="Deleted heron")
    Session.objects.filter(pk=deleted.pk).update(deleted_at=timezone.now())
    session_with(user, "The result of a tool: heron", title="Tool", role="tool")
    session_with(user, "The heron of another version", title="Version", is_off_path=True)
    assert (found(user, "heron"), texts_of(user, "heron")) == ([], [])


def test_a_message_is_gone_from_the_index_with_its_row_and_changed_with_its_text(user: User) -> None:
    session = session_with(user, "The heron.", "The stork.")
    turn = session.turns.get(ordinal=0)
    Turn.objects.filter(pk=turn.pk).update(content="The crane.")
    message_index.put_again(turn.pk)
    assert (texts_of(user, "heron"), texts_of(user, "crane")) == ([], ["The crane."])
    turn.delete()
    scope = message_index.scope_of(user.pk)
    assert index.find(scope, parse("crane"), limit=9) == []
    assert SearchEntry.objects.count() == 1


def test_older_messages_are_indexed_behind_the_new_ones(user: User) -> None:
    """As after an upgrade: messages without an entry, the newest of which are indexed first."""
    session = session_with(user)
    SearchProgress.objects.all().delete()
    for ordinal in range(60):
        pk = first_id_at(timezone.now() - timedelta(days=60 - ordinal))
        turn = {"pk": pk, "session": session, "ordinal": ordinal, "part": 0, "created_at": timezone.now()}
        Turn.objects.create(**turn, role="user", content=f"heron {ordinal}")
    indexer = message_index.Indexer()
    assert indexer.index_some() == 50
    newest = index.find(message_index.scope_of(user.pk), parse("heron"), limit=99)
    assert [Turn.objects.get(pk=match.object_id).ordinal for match in newest] == list(range(59, 9, -1))
    assert (message_index.count_missing(), indexer.index_some(), indexer.index_some()) == (10, 10, 0)
    assert SearchProgress.objects.get().is_complete


def test_the_sweep_indexes_what_was_received(user: User, valkey: object) -> None:
    session = make_session(user)
    Turn.objects.create(session=session, ordinal=0, part=0, role="user", content="A heron", created_at=timezone.now())
    message_index.Indexer().step()
    assert texts_of(user, "heron") == ["A heron"]


def test_the_sidebar_shows_the_snippet_escaped(user: User, valkey: object) -> None:
    session_with(user, "A young heron <b>here</b>.", title="Birds")
    client = Client()
    client.force_login(user)
    fragment = {"HX-Request": "true"}
    shown = client.get("/chat/sessions", {"q": "heron"}, headers=fragment).content.decode()
    assert "A young <mark>heron</mark> &lt;b&gt;here&lt;/b&gt;." in shown
    none = client.get("/chat/sessions", {"q": "crocodile"}, headers=fragment).content.decode()
    assert "No chat contains “crocodile”" in none


def test_a_search_without_scripts_shows_a_whole_page(user: User, valkey: object) -> None:
    session_with(user, "A young heron here.", title="Birds")
    client = Client()
    client.force_login(user)
    page = client.get("/chat/sessions", {"q": "young heron"}, follow=True).content.decode()
    assert "<mark>heron</mark>" in page and 'value="young heron"' in page and "<!doctype html>" in page.lower()


def test_messages_are_found_over_rest_page_by_page(user: User, valkey: object) -> None:
    session = session_with(user, "A heron in the reeds.", "Two herons.", "A stork.", title="Birds")
    api = RestCaller(user)
    first = api.get("search?query=heron&limit=1")
    second = api.get(f"search?query=heron&limit=1&cursor={first.meta['nextCursor']}")
    [found] = first.data
    assert (found["sessionId"], found["title"], found["role"]) == (session.key, "Birds", "assistant")
    assert {found["snippet"], second.data[0]["snippet"]} == {"A heron in the reeds.", "Two herons."}
    assert second.meta["nextCursor"] is None
    assert api.get("search").status == api.get("search?query=heron&cursor=x").status == 400
    assert RestCaller(make_user("eve")).get("search?query=heron").data == []


def test_a_result_opens_at_its_message_also_among_older_ones(user: User, valkey: object) -> None:
    session = make_session(user, turns=200)
    old = session.turns.get(ordinal=20)
    run = make_run(session)
    Turn.objects.filter(pk=old.pk).update(content="The heron", run=run)
    message_index.catch_up()
    client = Client()
    client.force_login(user)
    address = f"/chat/{session.pk}?at={run.pk}#turn-{run.pk}"
    fragment = {"HX-Request": "true"}
    assert address in client.get("/chat/sessions", {"q": "heron"}, headers=fragment).content.decode()
    html = client.get(f"/chat/{session.pk}", {"at": run.pk}).content.decode()
    assert f'id="turn-{run.pk}"' in html and "turns?before=20" in html
    assert f'id="turn-{run.pk}"' not in client.get(f"/chat/{session.pk}").content.decode()
    assert f'id="turn-{run.pk}"' not in client.get(f"/chat/{session.pk}", {"at": "no id"}).content.decode()


def test_the_command_indexes_and_rebuilds(user: User) -> None:
    session_with(user, "A heron", "A stork")
    out = StringIO()
    call_command("index_search", rebuild=True, stdout=out)
    assert "Indexed 2 messages." in out.getvalue() and texts_of(user, "heron") == ["A heron"]
