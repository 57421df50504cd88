"""Search in the messages of the user's sessions, on the page."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from sessions_app.conversation.session_search import search
from sessions_app.models import Session, Turn
from tests.support.rest import make_session, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    return make_user("ada")


def session_with(owner: User, *texts: str, title: str = "", role: str = "assistant") -> Session:
    session = make_session(owner, key=f"WebChat:default:{owner.pk}:{Session.objects.count()}")
    Session.objects.filter(pk=session.pk).update(title=title)
    for ordinal, text in enumerate(texts):
        turn = {"session": session, "ordinal": ordinal, "part": 0, "created_at": timezone.now()}
        Turn.objects.create(**turn, role=role, content=text)
    return session


def found(owner: User, query: str) -> list[str]:
    return [match.session.title for match in search(owner, query, limit=10)]


def test_sessions_are_found_by_all_words_of_a_message(user: User) -> None:
    session_with(user, "The heron stands in the reeds.", "It flies away.", title="Birds")
    session_with(user, "A heron.", "The reeds.", title="Two messages")
    session_with(user, "Nothing of it.", title="A heron in the title, and reeds")
    assert found(user, "REEDS heron") == ["A heron in the title, and reeds", "Birds"]
    assert found(user, "crocodile") == []


def test_the_snippet_is_of_the_newest_message_that_matches(user: User) -> None:
    session_with(user, "An old heron.", "A young heron <b>here</b>.", "Something else.", title="Birds")
    [match] = search(user, "heron", limit=10)
    assert "".join(piece.text for piece in match.snippet) == "A young heron <b>here</b>."


@pytest.mark.parametrize("query", ["ÄHRE", "ähre", "Ähre"])
def test_letters_beyond_ascii_are_found_in_any_case(user: User, query: str) -> None:
    session_with(user, "Eine Ähre im Feld", title="Feld")
    assert found(user, query) == ["Feld"]


@pytest.mark.parametrize("query", ["%", "_", "\\", "'"])
def test_signs_of_patterns_are_literal(user: User, query: str) -> None:
    session_with(user, "plain text", title="Plain")
    session_with(user, f"with {query} in it", title="Sign")
    assert found(user, query) == ["Sign"]


def test_only_the_users_own_sessions_are_searched(user: User) -> None:
    session_with(make_user("eve"), "The heron of Eve", title="Eve's")
    deleted = session_with(user, "The deleted heron", title="Deleted")
    Session.objects.filter(pk=deleted.pk).update(deleted_at=timezone.now())
    session_with(user, "The result of a tool: heron", title="Tool", role="tool")
    assert found(user, "heron") == []


def test_the_sidebar_shows_the_snippet_escaped(user: User, valkey: object) -> None:
    session_with(user, "A young heron <b>here</b>.", title="Birds")
    client = Client()
    client.force_login(user)
    shown = client.get("/chat/sessions", {"q": "heron"}).content.decode()
    assert "A young <mark>heron</mark> &lt;b&gt;here&lt;/b&gt;." in shown
    assert "No chat contains “crocodile”" in client.get("/chat/sessions", {"q": "crocodile"}).content.decode()
