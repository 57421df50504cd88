"""Receiving of mails from a mailbox: new ones by IDLE, else by polling, each once whatever breaks.

The cursor is `<UIDVALIDITY>:<UID>` of the last mail. If the mailbox has renumbered its mails, those of the last week
are read again: the ones that are known by their Message-ID have no effect.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial

from sessions_app.platforms.adapters.email.access_tokens import REFUSED_ANEW
from sessions_app.platforms.adapters.email.imap import Header, Imap, ImapError, ImapRefused, Server, date
from sessions_app.platforms.adapters.email.mail_parser import parse
from sessions_app.platforms.adapters.email.received_mail import (
    Place,
    Policy,
    content_of,
    files_of,
    read_mail,
    too_large,
)
from sessions_app.platforms.base import FetchError, SendError
from sessions_app.platforms.link import ConnectionLost, CredentialsRefused, Link, NeedsAttention, Received

LARGEST_BYTES = 35 * 1024 * 1024
_LARGEST = "35 MB"
# Mails of this time before the first connection are answered, too: somebody may have tried the address already.
_BEFORE_START = timedelta(minutes=10)
_AFTER_RENUMBERING = timedelta(days=7)
_LONGEST_STORED = 64 * 1024
_PIECE = 256 * 1024
_AT_ONCE = 200  # mails in one command, whose length servers limit
_IDLE_SECONDS = 60.0  # the end of each IDLE is the heartbeat
# Servers refuse a login for reasons other than the password (RFC 5530).
_PASSING = ("[UNAVAILABLE]", "[INUSE]", "[LIMIT]", "[SERVERBUG]", "TOO MANY", "TRY AGAIN")


async def receive(server: Server, link: Link, rules: Policy, now: Callable[[], datetime], seconds: float) -> None:
    """Receive mails until cancelled. seconds: between two looks, if the server has no IDLE.

    Raises ConnectionLost, CredentialsRefused, NeedsAttention.
    """
    try:
        async with Imap(server) as imap:
            link.heartbeat()
            last = await _begin(imap, link, rules, now())
            while True:
                uids = await _newer(imap, last)
                for header in await imap.headers(uids[:_AT_ONCE]):
                    last = header.uid
                    await _take(imap, header, link, rules)
                if len(uids) > _AT_ONCE:
                    continue
                await imap.wait(_IDLE_SECONDS if imap.can_idle else min(seconds, _IDLE_SECONDS))
                link.heartbeat()
    except ImapRefused as error:
        raise _reason(str(error), server) from None
    except SendError as error:  # there is no access token
        raise (CredentialsRefused if error.ends_account else ConnectionLost)(error.message) from None
    except ImapError as error:
        raise ConnectionLost(str(error)) from None


async def read_file(server: Server, file_id: str, most_bytes: int) -> AsyncGenerator[bytes, None]:
    """Yield the content of an attached file in pieces. Raises FetchError."""
    try:
        validity, uid, index = map(int, file_id.split("."))
    except ValueError:
        raise FetchError("its id is not valid", is_final=True) from None
    try:
        async with Imap(server) as imap:
            raw = await imap.fetch(uid) if imap.validity == validity else None
    except (ImapError, SendError) as error:
        raise FetchError(f"the mailbox cannot be read ({error})", is_final=False) from None
    content = await asyncio.to_thread(_find_file, raw, index) if raw else None
    if content is None:
        raise FetchError("the mail is no longer in the mailbox", is_final=True)
    if len(content) > most_bytes:
        raise FetchError(f"it has more than {most_bytes // 1024 // 1024} MB", is_final=True)
    for start in range(0, len(content), _PIECE):
        yield content[start : start + _PIECE]


def _find_file(raw: bytes, index: int) -> bytes | None:
    """Return the content of an attached file of a mail, None if it has fewer."""
    parts = files_of(parse(raw))
    return content_of(parts[index]) if index < len(parts) else None


async def _begin(imap: Imap, link: Link, rules: Policy, now: datetime) -> int:
    """Return the UID to continue after. Delivers what has to be read first, and stores where we are."""
    validity, _, uid = link.cursor.partition(":")
    if validity == str(imap.validity):
        return int(uid)
    since = now - (_AFTER_RENUMBERING if validity else _BEFORE_START)
    # Dates of IMAP have neither time nor zone.
    recent = await imap.headers(await imap.search(f"SINCE {date(since - timedelta(days=1))}"))
    for header in recent:
        if header.received_at >= since:
            await _take(imap, header, link, rules)
    known = imap.next_uid - 1 if imap.next_uid else max(await imap.search("ALL"), default=0)
    last = max([known, *(header.uid for header in recent)])
    await link.deliver([], f"{imap.validity}:{last}")
    return last


async def _newer(imap: Imap, last: int) -> list[int]:
    # A range that begins after the last mail contains that mail: `*` is the greatest UID.
    return [uid for uid in await imap.search(f"UID {last + 1}:*") if uid > last]


async def _take(imap: Imap, header: Header, link: Link, rules: Policy) -> None:
    place = Place(imap.validity, header.uid, header.received_at)
    is_large = header.size > LARGEST_BYTES
    raw = await imap.fetch(header.uid, "HEADER" if is_large else "")
    if raw is None:  # somebody has deleted it
        return
    read = partial(too_large, most=_LARGEST) if is_large else read_mail
    event = await asyncio.to_thread(read, raw, rules, place)  # a large mail takes a second
    cursor = f"{imap.validity}:{header.uid}"
    await link.deliver([Received(event, raw[:_LONGEST_STORED] or b"\n")], cursor)
    with suppress(ImapRefused):  # of a folder that may only be read
        await imap.mark_read(header.uid)


def _reason(answer: str, server: Server) -> ConnectionLost | NeedsAttention:
    """Return what a refused command means for the connection."""
    text = answer.upper()
    if any(word in text for word in _PASSING):
        return ConnectionLost(f"The mail server answered: {answer}")
    if "AUTH" in text or "LOGIN" in text or "CREDENTIALS" in text or "PASSWORD" in text:
        remedy = (
            REFUSED_ANEW.format(protocol="IMAP")
            if server.tokens
            else "enter the password again (often an app password)"
        )
        return CredentialsRefused(f"The mail server refuses the login of {server.user}: {remedy}.")
    return NeedsAttention(f"The mail server answered: {answer}. Check the name of the folder, {server.folder}.")
