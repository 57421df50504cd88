"""Senders as actors."""

import pytest

from sessions_app.platforms.registry import channels
from sessions_app.platforms.sender_actors import at_account, former_actor, sender_actor
from tests.architecture.source import APPS, ROOT


@pytest.mark.parametrize(
    ("sender", "actor"),
    [
        (("web", "shop", "42"), "sender:Web/shop:42"),
        (("Web", "shop", "42"), "sender:Web/shop:42"),
        (("teams", "main", "29:1a"), "sender:Teams/main:29:1a"),
        (("telegram", "main", "501"), "sender:Telegram:501"),
        (("Discord", "main", "501"), "sender:Discord:501"),
        (("WebChat", "default", "zoe"), "sender:WebChat/default:zoe"),
        (("WebChat", "a:b/c", "zoe"), "sender:WebChat/a%3Ab%2Fc:zoe"),
        (("gone", "main", "7"), "sender:gone/main:7"),
    ],
)
def test_a_sender_is_one_of_its_account_unless_the_platform_proves_who_it_is(sender, actor):
    assert sender_actor(*sender) == actor


def test_two_platforms_prove_their_senders():
    assert {channel.slug for channel in channels if channel.proves_senders} == {"discord", "telegram"}


def test_long_actors_fit_and_differ():
    ids = [letter * 200 for letter in "uv"] + ["u" * 199 + "v", "u" * 185, "u" * 183]
    actors = {sender_actor("web", "shop", sender_id) for sender_id in ids}
    assert len(actors) == len(ids) and max(map(len, actors)) == 200
    short = "u" * (199 - len("sender:Web/shop:"))
    assert sender_actor("web", "shop", short) == f"sender:Web/shop:{short}"
    [long] = {sender_actor("web", "shop", "u" * 200)}
    assert sender_actor("web", "shop", long.removeprefix("sender:Web/shop:")) != long
    assert sender_actor("web", "a" * 120, "u" * 200) != sender_actor("web", "a" * 119 + "b", "u" * 200)


def test_the_account_is_added_to_what_an_earlier_release_wrote():
    assert former_actor("web", "42") == "sender:Web:42"
    assert at_account("sender:Web:42", "Web", "shop") == "sender:Web/shop:42"
    for actor in ("sender:Web/shop:42", "sender:Telegram:501", "user:7", "agent:default", "system"):
        assert at_account(actor, "Web", "blog") == actor
    assert at_account("sender:Telegram:501", "Telegram", "main") == "sender:Telegram:501"


def test_one_module_makes_actors_of_senders():
    """The filter of the audit log, which knows no channels, spells out the forms that it compares."""
    sources = [path for app in APPS for path in (ROOT / app).rglob("*.py") if path.parent.name != "migrations"]
    makers = {path.name for path in sources if 'f"sender:{' in path.read_text(encoding="utf-8")}
    assert makers == {"sender_actors.py", "selectors.py"}
