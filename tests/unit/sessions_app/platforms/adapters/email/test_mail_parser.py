"""Mails that were made to keep the parser busy."""

import time
from collections.abc import Callable

import pytest

from sessions_app.platforms.adapters.email.mail_parser import MOST_PARTS, parse
from sessions_app.platforms.messages import ChannelEvent, ChannelMessage, Ignored
from tests.unit.sessions_app.platforms.adapters.email.test_received_mail import RULES, read

HEAD = "From: zoe@example.org\r\nMessage-ID: <1@x>\r\n"
VERDICT = "Authentication-Results: mx.komand.example; dmarc=pass header.from=example.org\r\n"
SMALL, LARGE = 50_000, 200_000


def in_header(name: str, start: str, repeated: str, end: str = "") -> Callable[[int], str]:
    """Return a builder of mails of a length with one long header."""
    return lambda length: f"{VERDICT}{HEAD}{name}: {start}{repeated * (length // len(repeated))}{end}\r\n\r\nhello"


def in_body(media_type: str, repeated: str) -> Callable[[int], str]:
    return lambda length: f"{VERDICT}{HEAD}Content-Type: {media_type}\r\n\r\n{repeated * (length // len(repeated))}"


def nested(levels: int) -> Callable[[int], str]:
    """Return a builder of mails with parts within parts, and as many lines as fit."""
    opened = (f"Content-Type: multipart/mixed; boundary=b{level}\r\n\r\n--b{level}\r\n" for level in range(levels))
    head = f"{VERDICT}{HEAD}{''.join(opened)}\r\n"
    return lambda length: head + "\n" * (length - len(head))


def parts(header: str) -> Callable[[int], str]:
    part = f"--b\r\n{header}\r\nx\r\n"
    return lambda length: (
        f"{VERDICT}{HEAD}Content-Type: multipart/mixed; boundary=b\r\n\r\n{part * (length // len(part))}"
    )


def verdict(results: str) -> Callable[[int], str]:
    return lambda length: f"Authentication-Results: {results * (length // len(results))}\r\n{HEAD}\r\nhello"


HOSTILE = {
    "parameters": in_header("Content-Type", "text/plain", "; a=b"),
    "numbered parameters": in_header("Content-Disposition", "attachment", "; name*1*=%41"),
    "comments": in_header("Content-Type", "text/plain ", "(a"),
    "encoded words": in_header("Subject", "", "=?utf-8?q?a?= "),
    "words": in_header("Subject", "", "a "),
    "words of a name": in_header("From", "", "a ", "<a@x.example>"),
    "dots": in_header("Cc", "", "a.", "@x.example"),
    "groups": in_header("Reply-To", "", "a:"),
    "addresses": in_header("To", "", "a@x.example, "),
    "levels": nested(200),
    "parts": parts("Content-Type: text/plain\r\n"),
    "parts with parameters": parts(f"Content-Type: text/plain{'; a=b' * 800}\r\n"),
    "comments in verdicts": verdict("mx.komand.example; (("),
    "quotes in verdicts": verdict('mx.komand.example; dmarc="\\"'),
    "results": verdict("mx.komand.example; dkim=pass a=b"),
}


def seconds(raw: bytes) -> float:
    """Return the processor time that reading takes, the least of three: others may use the machine."""
    taken = []
    for _ in range(3):
        before = time.thread_time()
        read(raw)
        taken.append(time.thread_time() - before)
    return min(taken)


@pytest.mark.parametrize("build", HOSTILE.values(), ids=HOSTILE)
def test_four_times_the_length_takes_at_most_some_eight_times_the_work(build):
    small, large = (seconds(build(length).encode()) for length in (SMALL, LARGE))
    assert large < 8 * max(small, 0.05)


def subject_of(event: ChannelEvent) -> str:
    assert isinstance(event, ChannelMessage)
    return str(event.reference["subject"])


def test_of_long_headers_only_texts_are_cut():
    long = "x " * 5_000
    assert len(subject_of(read(f"{VERDICT}{HEAD}Subject: {long}\r\n\r\nhi".encode()))) == 200
    assert read(f"{VERDICT}From: {long} <zoe@example.org>\r\n\r\nhi".encode()) == Ignored("no_sender")
    copied = read(f"{VERDICT}{HEAD}Cc: bob@x.example, {long}\r\n\r\nhi".encode())
    assert isinstance(copied, ChannelMessage) and copied.copies == ()


@pytest.mark.parametrize("build", [nested(30), parts("Content-Type: text/plain\r\n")])
def test_a_mail_with_too_many_parts_is_answered_by_a_notice(build):
    found = read(build(LARGE).encode())
    assert isinstance(found, ChannelMessage) and found.unreadable == f"mail of more than {MOST_PARTS} parts"


def test_ordinary_forwards_within_forwards_are_read():
    mail = f"{HEAD}Content-Type: text/plain\r\n\r\ninner"
    for level in range(3):
        part = f"--f{level}\r\n\r\nsee below\r\n--f{level}\r\nContent-Type: message/rfc822\r\n\r\n"
        mail = f"{HEAD}Content-Type: multipart/mixed; boundary=f{level}\r\n\r\n{part}{mail}\r\n--f{level}--\r\n"
    found = read((VERDICT + mail).encode())
    assert isinstance(found, ChannelMessage) and found.text == "see below"
    assert b"inner" in parse(mail.encode()).as_bytes() and RULES.least == "verified"
