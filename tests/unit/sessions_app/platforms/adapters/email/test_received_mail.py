"""Mails as channel events: text, threads, files, and what gets no answer."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage

import pytest

from sessions_app.platforms.adapters.email.received_mail import (
    Place,
    Policy,
    content_of,
    files_of,
    read_mail,
    too_large,
)
from sessions_app.platforms.messages import ChannelMessage, ChatEvent, DeliveryReport, Ignored
from tests.fakes.mail_server import ADDRESS, mail_from

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
RULES = Policy(ADDRESS, "mx.komand.example", "verified")


def read(mail: EmailMessage | bytes, rules: Policy = RULES):
    raw = mail if isinstance(mail, bytes) else mail.as_bytes()
    return read_mail(raw, rules, Place(17, 5, NOW))


def test_a_first_mail_begins_a_thread_with_its_subject():
    found = read(
        mail_from(1, "Please look.", Subject="=?utf-8?q?Gr=C3=BC=C3=9Fe?=", Date="Sat, 21 Nov 2026 13:00:00 +0200")
    )
    assert isinstance(found, ChannelMessage)
    assert found.text == "Grüße\n\nPlease look." and found.sender_name == "Zoë" and found.sender_id == "zoe@example.org"
    assert found.sent_at == datetime(2026, 11, 21, 11, 0, tzinfo=UTC)
    assert found.keys == ("mail:m1@example.org",) and found.chat.id == found.sender_id
    assert found.reference == {"id": "m1@example.org", "references": [], "subject": "Grüße"}
    assert found.metadata["senderProof"] == "dmarc"


def test_replies_stay_in_the_thread_of_the_first_mail():
    first = read(mail_from(1, "one"))
    later = read(
        mail_from(3, "two", References="<m1@example.org> <ours@komand.example>", In_Reply_To="<ours@komand.example>")
    )
    direct = read(mail_from(4, "three", In_Reply_To="<m1@example.org>"))
    assert first.chat == later.chat == direct.chat and later.reply_to_message_id == "ours@komand.example"
    assert read(mail_from(5, "other")).chat != first.chat
    assert later.text == "two", "the subject of a reply is not repeated"


def test_a_reply_that_names_only_our_mail_stays_in_its_thread():
    first = read(mail_from(1, "one"))
    ours = f"<{'0a' * 20}.{first.chat.thread_id}@komand.example>"
    assert read(mail_from(2, "two", In_Reply_To=ours)).chat == first.chat
    assert read(mail_from(3, "three", In_Reply_To=ours, References=f"<trimmed@example.org> {ours}")).chat == first.chat
    assert read(mail_from(4, "four", References=f"<other@example.org> {ours.upper()} <m9@x>")).chat == first.chat
    foreign = ours.replace("komand.example", "evil.test")
    assert read(mail_from(5, "five", In_Reply_To=foreign)).chat != first.chat


MANY = {
    "Reply_To": "Zoë <zoe@home.example>",
    "Cc": f"Bob <BOB@x.example>, {ADDRESS}, no-reply@x.example, zoe@example.org",
}


def test_recipients_are_read_of_verified_senders_alone():
    found = read(mail_from(1, "hi", **MANY))
    assert found.copies == ("zoe@home.example", "bob@x.example") and found.chat.id == "zoe@example.org"
    assert (found.reference["copies"], found.reference["reply_to"]) == ([], "zoe@home.example")
    rules = Policy(ADDRESS, "mx.komand.example", "unverified", frozenset({"x.example"}))
    trusted = read(mail_from(1, "hi", **MANY), rules)
    assert trusted.copies == ("zoe@home.example",) and trusted.reference["copies"] == ["bob@x.example"]
    forged = read(mail_from(1, "hi", **MANY, Authentication_Results="mx.komand.example; dmarc=fail"), rules)
    assert forged.copies == () and "copies" not in forged.reference
    many = ", ".join(f"p{number}@x.example" for number in range(50))
    assert len(read(mail_from(1, "hi", Cc=many)).copies) == 10


@pytest.mark.parametrize("foreign", ["jörg@x.example".encode(), b"=?utf-8?q?j=C3=B6rg?=@x.example"])
def test_no_copy_goes_to_an_address_outside_of_ascii(foreign: bytes):
    raw = mail_from(1, "hi", Cc="bob@x.example, placeholder@x.example").as_bytes()
    found = read(raw.replace(b"placeholder@x.example", foreign), replace(RULES, copy_domains=frozenset(["x.example"])))
    assert isinstance(found, ChannelMessage)
    assert found.copies == () and found.reference["copies"] == ["bob@x.example"]


def test_the_time_of_a_wrong_clock_is_not_believed():
    assert read(mail_from(1, "x", Date="Fri, 01 Jan 2100 00:00:00 +0000")).sent_at == NOW
    assert read(mail_from(1, "x", Date="no date")).sent_at == NOW
    assert read(mail_from(1, "x", Date=f"{NOW - timedelta(hours=20):%d %b %Y %H:%M:%S} +0000")).sent_at < NOW


def test_html_becomes_text_without_scripts():
    mail = mail_from(1, "x")
    mail.set_content("<p>Hello <b>you</b></p><script>alert(1)</script><ul><li>one</li></ul>", subtype="html")
    found = read(mail)
    assert "Hello **you**" in found.text and "- one" in found.text and "alert" not in found.text


@pytest.mark.parametrize("charset", ["iso-8859-1", "utf-8", "no-such-charset"])
def test_any_charset_is_read(charset):
    body = "Grüße".encode("utf-8" if charset == "no-such-charset" else charset)
    head = f"From: a@example.org\r\nMessage-ID: <1@x>\r\nContent-Type: text/plain; charset={charset}\r\n"
    raw = head.encode() + b"Authentication-Results: mx.komand.example; dmarc=pass\r\n\r\n" + body
    assert read(raw).text == "Grüße"


def test_files_are_listed_and_can_be_read():
    mail = mail_from(1, "see")
    mail.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="../Größe.pdf")
    mail.add_attachment(mail_from(2, "inner"))
    mail.add_attachment(
        b"logo", maintype="image", subtype="png", filename="logo.png", cid="<logo@x>", disposition="inline"
    )
    found = read(mail)
    assert [(file.id, file.filename, file.mime_type) for file in found.attachments] == [
        ("17.5.0", "../Größe.pdf", "application/pdf"),
        ("17.5.1", "message.eml", "message/rfc822"),
    ]
    assert content_of(files_of(mail)[0]) == b"%PDF" and b"inner" in content_of(files_of(mail)[1])


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"Auto_Submitted": "auto-replied"}, "automatic"),
        ({"Auto_Submitted": "auto-generated; x=y"}, "automatic"),
        ({"Precedence": "Bulk"}, "automatic"),
        ({"List_Id": "<list.example.org>"}, "list"),
        ({"List_Unsubscribe": "<mailto:x@example.org>"}, "list"),
        ({"X_Auto_Response_Suppress": "DR, AutoReply"}, "no_answer_wanted"),
        ({"Return_Path": "<>"}, "bounce"),
        ({"X_Komand_Loop": "bot@other.example"}, "own_mail"),
        ({"From": ADDRESS.upper()}, "own_mail"),
        ({"From": "MAILER-DAEMON@example.org"}, "robot"),
        ({"From": "no-reply+1@example.org"}, "robot"),
        ({"From": "noreply@example.org"}, "robot"),
        ({"From": ""}, "no_sender"),
        ({"From": "a@example.org, b@example.org"}, "no_sender"),
        ({"From": "nobody"}, "no_sender"),
    ],
)
def test_what_machines_write_is_ignored(headers, why):
    assert read(mail_from(1, "hello", **headers)) == Ignored(why)


def test_auto_submitted_no_is_a_person():
    assert isinstance(read(mail_from(1, "hello", Auto_Submitted="no")), ChannelMessage)


@pytest.mark.parametrize(
    "raw", [b"", b"\0\xff\xfe", b"From: <<>>@@\r\n\r\nx", b"From: =?x?y?z?=\r\nDate: x\r\n\r\n", b"\r\n" * 9]
)
def test_malformed_mails_are_ignored(raw):
    assert isinstance(read(raw), Ignored)


@pytest.mark.parametrize(
    ("results", "least", "is_heard"),
    [
        ("dmarc=fail", "verified", False),
        ("dmarc=fail", "asserted", False),
        ("dmarc=fail", "unverified", True),
        ("spf=neutral", "verified", False),
        ("spf=neutral", "asserted", True),
        ("dkim=pass header.d=example.org", "verified", True),
        ("dkim=pass header.d=example.org", "dmarc", False),
        ("dmarc=pass header.from=example.org", "dmarc", True),
    ],
)
def test_the_setting_decides_which_senders_get_an_answer(results, least, is_heard):
    found = read(
        mail_from(1, "hi", Authentication_Results=f"mx.komand.example; {results}"),
        Policy(ADDRESS, "mx.komand.example", least),
    )
    assert isinstance(found, ChannelMessage if is_heard else ChatEvent)
    assert is_heard or found.note == "sender_not_verified"


@pytest.mark.parametrize("command", ["/approve", "/deny 1234 no", " /approve 12ab"])
@pytest.mark.parametrize("results", ["spf=neutral", "dkim=pass header.d=example.org", "dmarc=pass"])
def test_only_senders_with_dmarc_decide(command, results):
    rules = Policy(ADDRESS, "mx.komand.example", "unverified")
    found = read(mail_from(1, command, Authentication_Results=f"mx.komand.example; {results}"), rules)
    assert isinstance(found, ChatEvent)
    assert isinstance(read(mail_from(1, command), rules), ChannelMessage)


_PASS = ";dkim=pass header.d=example.org;dmarc=pass header.from=example.org;x="


@pytest.mark.parametrize(
    "results",
    [
        "dmarc=none; spf=pass smtp.mailfrom={}@evil.test",
        "spf=pass smtp.mailfrom={}@evil.test; dmarc=fail header.from=example.org",
        'spf=pass smtp.mailfrom={}@evil.test; dmarc=fail reason="no" header.from=example.org',
        "dkim=pass header.d=evil.test header.i={}@evil.test",
    ],
)
@pytest.mark.parametrize("is_quoted", [True, False])
def test_a_stranger_cannot_write_verdicts_into_the_parts_that_they_choose(results, is_quoted):
    """A header is not decoded: an encoded word in the envelope would become verdicts and an open quote."""
    encoded = "".join(f"={ord(letter):02X}" for letter in _PASS + '"')
    chosen = f'"{_PASS}"' if is_quoted else f"=?utf-8?q?{encoded}?="
    head = f"Authentication-Results: mx.komand.example; {results.format(chosen)}\r\n"
    raw = f"{head}From: zoe@example.org\r\nMessage-ID: <1@x>\r\n\r\n".encode()
    assert isinstance(read(raw + b"hello"), ChatEvent)
    assert isinstance(read(raw + b"/approve", Policy(ADDRESS, "mx.komand.example", "unverified")), ChatEvent)


def test_of_two_authors_none_is_the_sender():
    raw = b"Authentication-Results: mx.komand.example; dmarc=pass\r\nFrom: a@example.org\r\nFrom: b@x.example\r\n\r\nhi"
    assert read(raw) == Ignored("no_sender")


def test_a_mail_without_an_id_is_known_by_its_content():
    one, again, other = (read(mail_from(1, text, Message_ID="")) for text in ("a", "a", "b"))
    assert one.keys == again.keys != other.keys


def test_a_bounce_reports_the_failed_message():
    raw = (
        b"From: MAILER-DAEMON@example.org\r\nReturn-Path: <>\r\n"
        b"Content-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n"
        b"--b\r\nContent-Type: text/plain\r\n\r\nSorry.\r\n"
        b"--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; x\r\n\r\n"
        b"Final-Recipient: rfc822; zoe@example.org\r\nAction: failed\r\nDiagnostic-Code: smtp; 550 no such user\r\n\r\n"
        b"--b\r\nContent-Type: text/rfc822-headers\r\n\r\nMessage-ID: <abc@komand.example>\r\n\r\n--b--\r\n"
    )
    assert read(raw) == DeliveryReport("abc@komand.example", "failed", "smtp; 550 no such user")
    assert isinstance(read(raw.replace(b"Action: failed", b"Action: delayed")), Ignored)


def test_a_mail_that_is_too_large_is_answered_by_a_notice():
    mail = mail_from(1, "x" * 100)
    mail.add_attachment(b"big", maintype="application", subtype="zip", filename="a.zip")
    head = mail.as_bytes().partition(b"\n\n")[0] + b"\n\n"
    found = too_large(head, RULES, Place(17, 5, NOW), "35 MB")
    assert isinstance(found, ChannelMessage) and not found.text and found.unreadable == "mail of more than 35 MB"
