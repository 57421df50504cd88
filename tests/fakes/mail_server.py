"""A mail server over real TCP: a mailbox by IMAP with IDLE, and SMTP. It checks logins and the order of commands."""

import asyncio
import base64
import re
import threading
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Self

from tests.fakes.http_server import Fault

ADDRESS, PASSWORD = "bot@komand.example", "app-password-1"
SENDER = "zoe@example.org"
VERIFIED = "mx.komand.example; dmarc=pass header.from=example.org"
_NO_TOKEN = base64.b64encode(b'{"status":"401","schemes":"bearer"}')
_LITERAL = re.compile(rb"\{(\d+)\}$")


class FakeMailServer:
    """A mail server.

    sent: mails that were handed over by SMTP; recipients: the addresses of each.
    mailbox: content and time of each mail by UID. read: UIDs marked as read.
    validity: of the UIDs. can_idle: it has IDLE. valid_password: of both servers. faults: of the next commands.
    valid_token: the access tokens that both servers take by XOAUTH2, as a pattern; empty: none.
    logins: of IMAP.
    """

    def __init__(self) -> None:
        self.sent: list[EmailMessage] = []
        self.recipients: list[list[str]] = []
        self.mailbox: dict[int, tuple[bytes, datetime]] = {}
        self.read: set[int] = set()
        self.validity, self.next_uid, self.can_idle = 17, 1, True
        self.valid_password, self.valid_token = PASSWORD, ""
        self.faults: deque[Fault] = deque()
        self.logins = 0
        self.imap_port = self.smtp_port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping, self._started, self._changed = asyncio.Event(), threading.Event(), asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="fake-mail", daemon=True)

    @property
    def config(self) -> dict[str, object]:
        imap = {"imap_host": "127.0.0.1", "imap_port": self.imap_port, "imap_security": "none"}
        smtp = {"smtp_host": "127.0.0.1", "smtp_port": self.smtp_port, "smtp_security": "none"}
        return {"address": ADDRESS, **imap, **smtp, "auth_server": "mx.komand.example"}

    def texts(self) -> list[str]:
        parts = [mail.get_body(("plain",)) for mail in self.sent]
        return [part.get_content().strip() for part in parts if part]

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._loop
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def arrive(self, mail: EmailMessage | bytes, at: datetime | None = None) -> int:
        """Put a mail into the mailbox; return its UID."""
        uid, self.next_uid = self.next_uid, self.next_uid + 1
        content = mail if isinstance(mail, bytes) else mail.as_bytes(policy=policy.SMTP)
        self.mailbox = {**self.mailbox, uid: (content, at or datetime.now(UTC))}
        assert self._loop
        self._loop.call_soon_threadsafe(self._changed.set)
        return uid

    def renumber(self, validity: int) -> None:
        """Give all mails other UIDs, as after a restored backup."""
        self.validity, mails = validity, list(self.mailbox.values())
        self.mailbox, self.next_uid = {100 + number: mail for number, mail in enumerate(mails)}, 100 + len(mails)

    def cut(self) -> None:
        """End all connections."""
        assert self._loop
        for writer in list(self._writers):
            self._loop.call_soon_threadsafe(writer.transport.abort)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        imap = await asyncio.start_server(self._guarded(self._imap), "127.0.0.1", 0, limit=2**20)
        smtp = await asyncio.start_server(self._guarded(self._smtp), "127.0.0.1", 0, limit=2**20)
        self.imap_port, self.smtp_port = (server.sockets[0].getsockname()[1] for server in (imap, smtp))
        self._started.set()
        await self._stopping.wait()
        imap.close()
        smtp.close()
        for writer in list(self._writers):
            writer.transport.abort()

    def _guarded(self, serve):  # type: ignore[no-untyped-def]
        async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._writers.add(writer)
            try:
                with suppress(OSError, asyncio.IncompleteReadError):
                    await serve(reader, writer)
            finally:
                self._writers.discard(writer)
                writer.close()

        return run

    def _fault(self) -> Fault | None:
        return self.faults.popleft() if self.faults else None

    def _takes_token(self, response: bytes) -> bool:
        pattern = f"user={ADDRESS}\x01auth=Bearer {self.valid_token}\x01\x01"
        return bool(self.valid_token) and fnmatchcase(base64.b64decode(response).decode(), pattern)

    async def _imap(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"* OK ready\r\n")
        is_selected, known = False, 0  # known: how many mails the client has been told of
        while True:
            tag, words = await self._command(reader, writer)
            name = words[0].upper()
            if name == b"LOGIN":
                self.logins += 1
                if fault := self._fault():
                    if fault.what == "drop":
                        writer.transport.abort()
                        return
                    writer.write(tag + b" NO [UNAVAILABLE] try later\r\n")
                elif words[1:] != [ADDRESS.encode(), self.valid_password.encode()]:
                    writer.write(tag + b" NO [AUTHENTICATIONFAILED] Invalid credentials\r\n")
                else:
                    writer.write(tag + b" OK logged in\r\n")
            elif name == b"AUTHENTICATE" and words[1] == b"XOAUTH2":
                self.logins += 1
                writer.write(b"+ \r\n")
                if self._takes_token((await reader.readuntil(b"\r\n"))[:-2]):
                    writer.write(tag + b" OK logged in\r\n")
                else:
                    writer.write(b"+ " + _NO_TOKEN + b"\r\n")
                    assert await reader.readuntil(b"\r\n") == b"\r\n"
                    writer.write(tag + b" NO AUTHENTICATE failed.\r\n")
            elif name == b"CAPABILITY":
                more = b" IDLE" if self.can_idle else b""
                writer.write(b"* CAPABILITY IMAP4rev1" + more + b"\r\n" + tag + b" OK\r\n")
            elif name == b"SELECT" and words[1] == b"INBOX":
                is_selected, known = True, len(self.mailbox)
                writer.write(b"* %d EXISTS\r\n* OK [UIDVALIDITY %d]\r\n" % (known, self.validity))
                writer.write(b"* OK [UIDNEXT %d]\r\n" % self.next_uid + tag + b" OK [READ-WRITE] done\r\n")
            elif name == b"IDLE" and is_selected and self.can_idle:
                known = await self._idle(reader, writer, known)
                writer.write(tag + b" OK done\r\n")
            elif name == b"UID" and is_selected:
                self._answer_uid(writer, words[1:])
                writer.write(tag + b" OK done\r\n")
            else:
                writer.write(tag + (b" OK\r\n" if name == b"NOOP" else b" NO no such mailbox or command\r\n"))

    @staticmethod
    async def _command(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[bytes, list[bytes]]:
        """Return the tag and the words of a command; literals are words."""
        words: list[bytes] = []
        while True:
            line = (await reader.readuntil(b"\r\n"))[:-2]
            literal = _LITERAL.search(line)
            words += (line[: literal.start()] if literal else line).split()
            if literal is None:
                return words[0], words[1:]
            writer.write(b"+ go on\r\n")
            words.append(await reader.readexactly(int(literal[1])))

    async def _idle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int) -> int:
        """Report changes until the client ends it, also those since the last report. Return the count reported last."""
        writer.write(b"+ idling\r\n")
        done = asyncio.ensure_future(reader.readuntil(b"\r\n"))
        while not done.done():
            if len(self.mailbox) != count:
                count = len(self.mailbox)
                writer.write(b"* %d EXISTS\r\n" % count)
            self._changed.clear()
            await asyncio.wait({done}, timeout=0.01)
        assert (await done).upper() == b"DONE\r\n"
        return count

    def _answer_uid(self, writer: asyncio.StreamWriter, words: list[bytes]) -> None:
        name, rest = words[0].upper(), b" ".join(words[1:])
        if name == b"SEARCH":
            found = sorted(self.mailbox)
            if match := re.search(rb"UID (\d+):\*", rest):
                found = [uid for uid in found if uid >= int(match[1])] or found[-1:]
            writer.write(b"* SEARCH " + b" ".join(b"%d" % uid for uid in found) + b"\r\n")
            return
        for uid in sorted(self.mailbox):
            if str(uid) not in words[1].decode().split(","):
                continue
            content, at = self.mailbox[uid]
            if name == b"STORE":
                self.read.add(uid)
            elif b"INTERNALDATE" in rest:
                time = f"{at:%d-%b-%Y %H:%M:%S +0000}".encode()
                writer.write(b'* 1 FETCH (UID %d INTERNALDATE "%s" RFC822.SIZE %d)\r\n' % (uid, time, len(content)))
            else:
                part = content.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if b"HEADER" in rest else content
                writer.write(b"* 1 FETCH (UID %d BODY[] {%d}\r\n" % (uid, len(part)) + part + b")\r\n")

    async def _smtp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 ready\r\n")
        is_known, recipients = False, list[str]()
        while True:
            line = (await reader.readuntil(b"\r\n"))[:-2]
            name = line.split(b" ")[0].upper()
            if name == b"EHLO":
                writer.write(b"250-fake\r\n250-SIZE 20000000\r\n250 AUTH PLAIN XOAUTH2\r\n")
            elif line.startswith(b"AUTH XOAUTH2 "):
                is_known = self._takes_token(line.split(b" ")[2])
                if not is_known:
                    writer.write(b"334 " + _NO_TOKEN + b"\r\n")
                    assert await reader.readuntil(b"\r\n") == b"\r\n"
                writer.write(b"235 welcome\r\n" if is_known else b"535 5.7.3 Authentication unsuccessful\r\n")
            elif name == b"AUTH":
                given = base64.b64decode(line.split(b" ")[2]).split(b"\0")[1:]
                is_known = given == [ADDRESS.encode(), self.valid_password.encode()]
                writer.write(b"235 welcome\r\n" if is_known else b"535 5.7.8 wrong\r\n")
            elif name == b"MAIL" and is_known:
                writer.write(b"250 ok\r\n")
            elif name == b"RCPT" and is_known:
                recipient = line.partition(b"<")[2].rstrip(b">").decode()
                is_unknown = recipient.startswith("nobody@")
                recipients += [] if is_unknown else [recipient]
                writer.write(b"550 5.1.1 unknown\r\n" if is_unknown else b"250 ok\r\n")
            elif name == b"DATA" and recipients:
                self.recipients.append(recipients)
                writer.write(b"354 go on\r\n")
                content = (await reader.readuntil(b"\r\n.\r\n"))[:-3].replace(b"\r\n..", b"\r\n.")
                if not self._take(content, writer):
                    return
            elif name == b"QUIT":
                writer.write(b"221 bye\r\n")
                return
            else:
                writer.write(b"503 wrong order\r\n")

    def _take(self, content: bytes, writer: asyncio.StreamWriter) -> bool:
        """Store a mail. Returns whether the connection stays open."""
        fault = self._fault()
        if fault and fault.what == "status":
            is_final = fault.status < 429
            writer.write(b"550 refused\r\n" if is_final else b"451 try later\r\n")
            return True
        if not fault or fault.what == "accept_and_drop":
            mail = message_from_bytes(content, policy=policy.default)
            assert isinstance(mail, EmailMessage)
            self.sent.append(mail)
        if fault and fault.what != "slow":
            writer.transport.abort()
            return False
        writer.write(b"250 queued\r\n")
        return True


def mail_from(number: int, text: str, *, sender: str = f"Zoë <{SENDER}>", **headers: str) -> EmailMessage:
    """Return a mail to us. headers: further ones, with _ for -; an empty one removes the header."""
    mail = EmailMessage()
    common = {
        "From": sender,
        "To": ADDRESS,
        "Message-ID": f"<m{number}@example.org>",
        "Authentication-Results": VERIFIED,
    }
    for name, value in {**common, **{name.replace("_", "-"): value for name, value in headers.items()}}.items():
        if value:
            mail[name] = value
    mail.set_content(text)
    return mail
