"""Mails of ours: their headers, text and HTML; and the links that decide approval requests."""

import re
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest

from audit_app.kernel.errors import InvalidInput
from sessions_app.platforms.account_settings import AccountSettings
from sessions_app.platforms.adapters.email import decision_links, sent_mail
from sessions_app.platforms.adapters.email.adapter import Email
from sessions_app.platforms.adapters.email.received_mail import Place, read_mail
from sessions_app.platforms.base import SendCertainty, SendError, VerificationFailed, WebhookRequest
from sessions_app.platforms.messages import Button, ButtonPress, Chat, ChatEvent, Ignored, Outgoing, Target
from tests.fakes.mail_server import ADDRESS, PASSWORD, FakeMailServer

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
URL, KEY = "https://komand.example/channels/email/main/webhook", "k" * 43
REFERENCE = {"id": "m2@example.org", "references": ["m1@example.org", "o1@komand.example"], "subject": "Question"}
TARGET = Target(Chat("zoe@example.org", "direct", "t1"), reference=REFERENCE)
BUTTON = Button("Allow once", "apr:x:y")
HOSTS = {"imap_host": "localhost", "smtp_host": "localhost", "auth_server": "mx"}


def account(**config: object) -> AccountSettings:
    return AccountSettings("main", {"address": ADDRESS, **HOSTS, **config}, {"password": "p", "link_key": KEY}, URL)


def composed(markdown: str, target: Target = TARGET, **more: object):
    [rendered] = sent_mail.rendered(markdown)
    return sent_mail.compose(Outgoing("key-1", target, rendered, **more), ADDRESS, "Komand", [], NOW)  # type: ignore[arg-type]


def test_the_settings_of_an_account_show_no_secrets():
    hidden = {"password": PASSWORD, "link_key": KEY}
    adapter = Email(AccountSettings("main", {"address": ADDRESS, **HOSTS}, hidden, URL))
    shown = repr(vars(adapter))
    assert ADDRESS in shown and PASSWORD not in shown and KEY not in shown


def test_an_answer_stays_in_the_thread_and_asks_for_no_automatic_answer():
    mail = composed("Hello **you**")
    assert mail["References"] == "<m1@example.org> <o1@komand.example> <m2@example.org>"
    assert mail["In-Reply-To"] == "<m2@example.org>" and mail["Subject"] == "Re: Question"
    assert mail["Auto-Submitted"] == "auto-replied" and mail["X-Auto-Response-Suppress"] == "All"
    assert mail["X-Komand-Loop"] == ADDRESS and str(mail["From"]) == f"Komand <{ADDRESS}>"
    assert mail["Message-ID"] == composed("Hello **you**")["Message-ID"], "the same at each try"
    kinds = [part.get_content_type() for part in mail.iter_parts()]
    assert kinds == ["text/plain", "text/html"]


def test_a_first_mail_of_ours_begins_a_thread():
    mail = composed("Good morning", Target(Chat("zoe@example.org")))
    assert mail["Auto-Submitted"] == "auto-generated" and mail["References"] is None and "Komand" in mail["Subject"]


def test_a_message_id_names_the_thread():
    ours = str(composed("x")["Message-ID"])
    assert re.fullmatch(r"<[0-9a-f]{40}\.t1@komand\.example>", ours)
    assert "." not in str(composed("x", Target(Chat("zoe@example.org")))["Message-ID"]).partition("@")[0]


COPIED = Target(
    TARGET.chat,
    reference={**REFERENCE, "copies": ["zoe@home.example", "bob@x.example"], "reply_to": "zoe@home.example"},
)


def test_an_answer_goes_to_the_known_recipients_and_a_decision_to_the_sender():
    mail = composed("x", COPIED)
    assert mail["To"] == "zoe@home.example" and mail["Cc"] == "bob@x.example"
    unknown = Target(TARGET.chat, reference={**REFERENCE, "copies": [], "reply_to": "zoe@home.example"})
    assert composed("x", unknown)["To"] == "zoe@example.org" and composed("x", unknown)["Cc"] is None
    for more in ({"buttons": (BUTTON,)}, {"kind": "approval"}, {"kind": "notice"}):
        assert composed("x", COPIED, **more)["To"] == "zoe@example.org" and composed("x", COPIED, **more)["Cc"] is None


def test_subjects_are_answered_with_one_re():
    target = Target(TARGET.chat, reference={**REFERENCE, "subject": "RE: Question"})
    assert composed("x", target)["Subject"] == "RE: Question"


def test_the_html_loads_nothing_and_runs_nothing():
    html = sent_mail.to_html(
        "![pixel](https://evil.test/p.png) <script>x</script> [a](javascript:x) **b**\n\n| a |\n|-|\n| 1 |"
    )
    assert "<img" not in html and "<script" not in html and 'href="javascript' not in html
    assert '<a href="https://evil.test/p.png"' in html and "<strong>b</strong>" in html and "<table>" in html


def test_the_text_shows_addresses():
    [rendered] = sent_mail.rendered("See [this](https://example.org/x) and `code`")
    assert rendered.text == "See this (https://example.org/x) and code"


@pytest.mark.parametrize("subject", ["a\r\nBcc: x@evil.test", "a\nb"])
async def test_headers_cannot_be_injected(subject):
    adapter = Email(account())
    [rendered] = adapter.render("x", TARGET.chat)
    with pytest.raises(SendError) as raised:
        await adapter.send(Outgoing("k", Target(TARGET.chat, reference={"id": "1@x", "subject": subject}), rendered))
    assert raised.value.certainty is SendCertainty.REFUSED


async def test_a_recipient_that_does_not_exist_and_a_wrong_password_are_final():
    with FakeMailServer() as server:
        for chat, password, ends in (("nobody@example.org", PASSWORD, False), ("zoe@example.org", "wrong", True)):
            adapter = Email(AccountSettings("a", server.config, {"password": password, "link_key": KEY}))
            with pytest.raises(SendError) as raised:
                await adapter.send(Outgoing("k", Target(Chat(chat)), sent_mail.rendered("x")[0]))
            assert raised.value.certainty is SendCertainty.REFUSED and raised.value.ends_account is ends


async def test_the_test_of_an_account_names_the_server_whose_verdicts_are_in_the_mails():
    with FakeMailServer() as server:
        adapter = Email(AccountSettings("a", server.config, {"password": PASSWORD, "link_key": KEY}))
        lines = (await adapter.check()).lines
    assert "accepts the login" in lines[0] and "reports new mails at once" in lines[1]


async def test_without_an_auth_server_the_test_says_that_nobody_is_answered_and_offers_the_one_of_the_newest_mail():
    with FakeMailServer() as server:
        config = {name: value for name, value in server.config.items() if name != "auth_server"}
        adapter = Email(AccountSettings("a", config, {"password": PASSWORD, "link_key": KEY}))
        without = await adapter.check()
        server.arrive(b"Authentication-Results: mx.komand.example; spf=pass\r\nFrom: zoe@example.org\r\n\r\nHi\r\n")
        offering = await adapter.check()
        server.arrive(b"Authentication-Results: elsewhere.example; spf=pass\r\nFrom: zoe@example.org\r\n\r\nHi\r\n")
        settled = await Email(AccountSettings("a", server.config, {"password": PASSWORD, "link_key": KEY})).check()
    needed = "No sender is verified and answered before auth_server is set, or senders to asserted."
    assert needed in without.lines and without.offered == {}
    assert needed in offering.lines and offering.offered == {"auth_server": "mx.komand.example"}
    assert needed not in settled.lines and settled.offered == {}  # what was chosen is not replaced


def test_without_an_auth_server_no_sender_is_verified():
    adapter = Email(account(auth_server=""))
    mail = (
        b"Authentication-Results: evil.example; dmarc=pass\r\nFrom: zoe@example.org\r\nMessage-ID: <1@x>\r\n\r\nHi\r\n"
    )
    event = read_mail(mail, adapter._rules, Place(1, 1, NOW))
    assert isinstance(event, ChatEvent) and event.note == "sender_not_verified"


@pytest.mark.parametrize(
    "config", [{"imap_host": ""}, {"address": "bot"}, {"senders": "anyone"}, {"smtp_security": "ssl"}]
)
def test_unusable_settings_are_refused(config):
    with pytest.raises(InvalidInput):
        Email(account(**config))


# Links.


def link(now: datetime = NOW, key: str = KEY) -> WebhookRequest:
    url = decision_links.make_link(URL, key, BUTTON, TARGET, now)
    assert url.startswith(f"{URL}?")
    return WebhookRequest(b"", {}, "GET", urlsplit(url).query)


def test_opening_a_link_decides_nothing_and_its_button_decides():
    adapter = Email(account(), clock=lambda: NOW)
    asked = link()
    adapter.verify(asked, NOW)
    assert adapter.parse(asked, NOW) == [Ignored("page")]
    page = adapter.acknowledge(asked, [])
    assert page.status == 200 and "Allow once" in str(page.body) and 'method="post"' in str(page.body)
    pressed = WebhookRequest(b"", {}, "POST", asked.query)
    [press] = adapter.parse(pressed, NOW)
    assert isinstance(press, ButtonPress) and press.action_id == "apr:x:y" and press.sender_id == "zoe@example.org"
    assert press.chat == TARGET.chat and press.keys == (f"link:{press.press_id}",)
    assert press.reference == {"id": "m2@example.org", "subject": "Question"}
    assert "outcome follows" in str(adapter.acknowledge(pressed, []).body)


def test_forged_changed_and_old_links_are_refused():
    adapter, good = Email(account(), clock=lambda: NOW), link().query
    changed = [
        good.replace("decide=W", "decide=X"),
        good[:-1],
        f"{good}&{good}",
        "",
        "decide=",
        "decide=.",
        "decide=%ff.%ff",
    ]
    for query in (*changed, link(key="another").query):
        with pytest.raises(VerificationFailed):
            adapter.verify(WebhookRequest(b"", {}, "POST", query), NOW)
    with pytest.raises(VerificationFailed):
        adapter.verify(link(NOW - timedelta(days=8)), NOW)


def test_the_page_shows_labels_as_text():
    shown = decision_links.Decision("1", "b", "<b>x</b>", '"><script>@x', "", {})
    assert "<script>" not in decision_links.page(shown) and "<b>x" not in decision_links.thanks(shown)


def test_buttons_need_a_public_address():
    assert Email(account()).capabilities(TARGET.chat).buttons
    private = AccountSettings("main", account().config, account().secrets, "/channels/email/main/webhook")
    assert not Email(private).capabilities(TARGET.chat).buttons
