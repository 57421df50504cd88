"""A real IMAP server of this machine, at KOMAND_TEST_IMAP: see docs/testing.md."""

import asyncio
import imaplib
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit

import pytest

from sessions_app.platforms.adapters.email import mailbox
from sessions_app.platforms.adapters.email.imap import Imap, ImapRefused, Server
from sessions_app.platforms.adapters.email.received_mail import Policy
from sessions_app.platforms.link import CredentialsRefused, NeedsAttention, Received
from sessions_app.platforms.messages import ChannelMessage
from tests.fakes.mail_server import ADDRESS, mail_from

pytestmark = pytest.mark.real_mail

RULES = Policy(ADDRESS, "mx.komand.example", "verified")


@pytest.fixture
def server() -> Server:
    """Return the server, with an empty inbox."""
    url = urlsplit(os.environ.get("KOMAND_TEST_IMAP", ""))
    if not url.hostname:
        pytest.skip("KOMAND_TEST_IMAP is not set")
    user, password = unquote(url.username or ""), unquote(url.password or "")
    with imaplib.IMAP4(url.hostname, url.port or 143) as imap:
        imap.login(user, password)
        _, [count] = imap.select()
        if count != b"0":
            imap.store("1:*", "+FLAGS", "\\Deleted")
        imap.expunge()
    return Server(url.hostname, url.port or 143, False, user, password, "INBOX")


def put(server: Server, mail: EmailMessage) -> None:
    with imaplib.IMAP4(server.host, server.port) as imap:
        imap.login(server.user, server.password)
        imap.append("INBOX", None, None, mail.as_bytes())  # type: ignore[arg-type]


class Kept:
    """A link that keeps what it was given."""

    def __init__(self, cursor: str = "") -> None:
        self.cursor, self.messages = cursor, list[ChannelMessage]()

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]

    async def deliver(self, received: Sequence[Received], cursor: str) -> None:
        self.messages += [one.event for one in received if isinstance(one.event, ChannelMessage)]
        self.cursor = cursor

    def heartbeat(self) -> None:
        return


@asynccontextmanager
async def receiving(server: Server, link: Kept) -> AsyncIterator[None]:
    task = asyncio.create_task(mailbox.receive(server, link, RULES, lambda: datetime.now(UTC), 1.0))
    try:
        yield
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.wait({task})


async def seen(link: Kept, count: int) -> None:
    async with asyncio.timeout(60):
        while len(link.messages) < count:
            await asyncio.sleep(0.05)


async def test_mails_are_read_at_once_and_once(server: Server) -> None:
    put(server, mail_from(1, "before"))
    link = Kept()
    async with receiving(server, link):
        await seen(link, 1)
        await asyncio.to_thread(put, server, mail_from(2, "by IDLE"))
        await seen(link, 2)
        for number in range(3, 33):
            await asyncio.to_thread(put, server, mail_from(number, f"mail {number}"))
        await seen(link, 32)
    again = Kept(link.cursor)
    await asyncio.to_thread(put, server, mail_from(40, "after"))
    async with receiving(server, again):
        await seen(again, 1)
    assert link.texts == ["before", "by IDLE", *(f"mail {number}" for number in range(3, 33))]
    assert again.texts == ["after"]
    async with Imap(server) as imap:
        assert len(await imap.search("SEEN")) >= 32


async def test_files_are_read_from_the_mailbox(server: Server) -> None:
    mail = mail_from(1, "see")
    mail.add_attachment(bytes(range(256)) * 400, maintype="application", subtype="zip", filename="ü.zip")
    put(server, mail)
    link = Kept()
    async with receiving(server, link):
        await seen(link, 1)
    [file] = link.messages[0].attachments
    assert file.filename == "ü.zip"
    content = b"".join([piece async for piece in mailbox.read_file(server, file.id, 200_000)])
    assert content == bytes(range(256)) * 400


@pytest.mark.parametrize(
    ("change", "reason"), [({"password": "wrong"}, CredentialsRefused), ({"folder": "Nope"}, NeedsAttention)]
)
async def test_refusals_are_told_apart(server: Server, change: dict[str, str], reason: type[Exception]) -> None:
    wrong = Server(**{**vars(server), **change})
    with pytest.raises(reason):
        await mailbox.receive(wrong, Kept(), RULES, lambda: datetime.now(UTC), 1.0)
    with pytest.raises(ImapRefused):
        async with Imap(wrong):
            pytest.fail("it was let in")
