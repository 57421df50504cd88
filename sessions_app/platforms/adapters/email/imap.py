"""A client of IMAP4rev1 (RFC 3501) with IDLE (RFC 2177), for one mailbox, on an event loop."""

import asyncio
import base64
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Self

from sessions_app.platforms.adapters.email.access_tokens import AccessTokens, xoauth2
from tools_app.network.async_transport import ssl_context

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_LITERAL = re.compile(rb"\{(\d{1,10})\}\r\n\Z")
_LONGEST_LINE = 1024 * 1024
_LARGEST_LITERAL = 64 * 1024 * 1024
_CONNECT_SECONDS, _CLOSE_SECONDS = 15.0, 2.0

# A response: its line, with the literals between the pieces of it.
Response = Sequence[bytes]


class ImapError(Exception):
    """The connection broke, or the server does not speak IMAP."""


class ImapRefused(ImapError):
    """The server refused a command."""


@dataclass(frozen=True)
class Server:
    """A mailbox and its login.

    is_tls: TLS from the first byte
    tokens: the login is by OAuth, without the password
    """

    host: str
    port: int
    is_tls: bool
    user: str
    password: str = field(repr=False)
    folder: str
    tokens: AccessTokens | None = None


@dataclass(frozen=True)
class Header:
    """A message in the mailbox."""

    uid: int
    size: int
    received_at: datetime


class Imap:
    """One connection, logged in and with the folder selected, as an asynchronous context manager.

    next_uid: uid of the next message, 0 if the server does not report it.
    """

    def __init__(self, server: Server, seconds: float = 30.0) -> None:
        self._server, self._seconds = server, seconds
        self._count = 0
        self._has_news = False
        self.validity, self.next_uid, self.can_idle = 0, 0, False

    async def __aenter__(self) -> Self:
        """Raises ImapRefused (code in the text), ImapError, SendError (no access token)."""
        server = self._server
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                self._reader, self._writer = await asyncio.open_connection(
                    server.host, server.port, limit=_LONGEST_LINE, ssl=ssl_context() if server.is_tls else None
                )
        except (OSError, TimeoutError) as error:
            raise ImapError(f"No connection to {server.host} ({type(error).__name__}).") from None
        try:
            await self._greet()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                self._writer.close()
                await self._writer.wait_closed()

    async def _greet(self) -> None:
        [greeting, *_] = await self._read(self._seconds)
        if not greeting.startswith(b"* OK"):
            raise ImapError(f"The mail server answered: {_shown(greeting)}")
        await self._log_in()
        capabilities = b" ".join(line[0].upper() for line in await self.command("CAPABILITY"))
        self.can_idle = b" IDLE" in capabilities
        lines = await self.command("SELECT", self._server.folder.encode())
        self.validity, self.next_uid = (_number(name, lines) for name in (rb"UIDVALIDITY", rb"UIDNEXT"))

    async def _log_in(self) -> None:
        server = self._server
        if server.tokens is None:
            await self.command("LOGIN", server.user.encode(), server.password.encode())
            return
        token = await server.tokens.get()
        try:
            await self._authenticate(token)
        except ImapRefused:
            await self._authenticate(await server.tokens.get(refused=token))

    async def _authenticate(self, token: str) -> None:
        tag = await self._send("AUTHENTICATE XOAUTH2")
        await self._continue(tag)
        self._writer.write(base64.b64encode(xoauth2(self._server.user, token).encode()) + b"\r\n")
        await self._finish(tag)

    async def search(self, criteria: str) -> list[int]:
        """Return the UIDs of messages that match, ascending."""
        lines = await self.command(f"UID SEARCH {criteria}")
        words = [word for line in lines if line[0].upper().startswith(b"* SEARCH") for word in line[0].split()[2:]]
        return sorted(int(word) for word in words if word.isdigit())

    async def headers(self, uids: Iterable[int]) -> list[Header]:
        """Return what the mailbox knows about these messages, ascending; those that are gone are left out."""
        wanted = ",".join(map(str, uids))
        lines = await self.command(f"UID FETCH {wanted} (UID INTERNALDATE RFC822.SIZE)") if wanted else []
        found = [_header(b"".join(line)) for line in lines if b"FETCH" in line[0].upper()]
        return sorted((header for header in found if header), key=lambda header: header.uid)

    async def fetch(self, uid: int, section: str = "") -> bytes | None:
        """Return a message, or a section of it such as `HEADER`, without marking it as read; None if it is gone."""
        lines = await self.command(f"UID FETCH {uid} (UID BODY.PEEK[{section}])")
        return next((line[1] for line in lines if b"FETCH" in line[0].upper() and len(line) > 1), None)

    async def mark_read(self, uid: int) -> None:
        await self.command(f"UID STORE {uid} +FLAGS.SILENT (\\Seen)")

    async def wait(self, seconds: float) -> None:
        """Wait for a change of the mailbox, up to `seconds`. Without IDLE, sleep for that time.

        Returns at once if a change was reported beside the responses of earlier commands: it is not reported again.
        """
        if self._has_news:
            self._has_news = False
            return
        if not self.can_idle:
            await asyncio.sleep(seconds)
            await self.command("NOOP")
            return
        tag = await self._send("IDLE")
        await self._continue(tag)
        with suppress(TimeoutError):
            # A line that has begun may be cut off by the timeout: the end of it is read with what follows.
            while b"EXISTS" not in (await self._read(seconds, is_idle=True))[0].upper():
                continue
        self._writer.write(b"DONE\r\n")
        await self._finish(tag)

    async def command(self, text: str, *values: bytes) -> list[Response]:
        """Send a command and return its untagged responses. values: sent as literals. Raises ImapError."""
        tag = await self._send(text, *values)
        return await self._finish(tag)

    async def _send(self, text: str, *values: bytes) -> bytes:
        self._count += 1
        tag = b"K%d" % self._count
        line = tag + b" " + text.encode("ascii")
        for value in values:
            self._writer.write(line + b" {%d}\r\n" % len(value))
            await self._continue(tag)
            line = value
        try:
            self._writer.write(line + b"\r\n")
            await self._writer.drain()
        except OSError as error:
            raise ImapError(f"The connection was lost ({type(error).__name__}).") from None
        return tag

    async def _continue(self, tag: bytes) -> None:
        while not (line := (await self._read(self._seconds))[0]).startswith(b"+"):
            if line.startswith(tag + b" "):
                raise ImapRefused(_shown(line.partition(b" ")[2]))

    async def _finish(self, tag: bytes) -> list[Response]:
        lines: list[Response] = []
        while True:
            response = await self._read(self._seconds)
            if response[0].startswith(tag + b" "):
                answer = response[0].partition(b" ")[2]
                if not answer.upper().startswith(b"OK"):
                    raise ImapRefused(_shown(answer))
                return [*lines, [answer]]
            if response[0].startswith(b"+"):  # explains why a token is refused, and waits for an answer
                self._writer.write(b"\r\n")
            self._has_news = self._has_news or response[0].upper().endswith(b" EXISTS")
            lines.append(response)

    async def _read(self, seconds: float, *, is_idle: bool = False) -> Response:
        """Return the next response. Raises TimeoutError if is_idle, else ImapError."""
        pieces: list[bytes] = []
        try:
            async with asyncio.timeout(seconds):
                while True:
                    line = await self._reader.readuntil(b"\r\n")
                    literal = _LITERAL.search(line)
                    if literal is None:
                        return [*pieces, line.rstrip(b"\r\n")]
                    if int(literal[1]) > _LARGEST_LITERAL:
                        raise ImapError("The mail server sent a literal that is too large.")
                    pieces += [line[: literal.start()], await self._reader.readexactly(int(literal[1]))]
        except TimeoutError:
            if is_idle:
                raise
            raise ImapError("The mail server did not answer in time.") from None
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ImapError(f"The connection was lost ({type(error).__name__}).") from None


def date(moment: datetime) -> str:
    """Return a date as IMAP writes it, in English whatever the locale."""
    return f"{moment.day}-{_MONTHS[moment.month - 1]}-{moment.year}"


def _number(name: bytes, lines: Iterable[Response]) -> int:
    found = (re.search(rb"\[" + name + rb" (\d+)\]", line[0], re.IGNORECASE) for line in lines)
    return next((int(match[1]) for match in found if match), 0)


def _header(line: bytes) -> Header | None:
    uid, size = re.search(rb"UID (\d+)", line), re.search(rb"RFC822\.SIZE (\d+)", line)
    at = re.search(rb'INTERNALDATE "([^"]+)"', line)
    if not (uid and size and at):
        return None
    day, month, rest = at[1].decode("ascii", "replace").strip().split("-", 2)
    number = _MONTHS.index(month.title()) + 1
    moment = datetime.strptime(f"{int(day):02}-{number:02}-{rest}", "%d-%m-%Y %H:%M:%S %z")
    return Header(int(uid[1]), int(size[1]), moment)


def _shown(line: bytes) -> str:
    return line.decode("utf-8", "replace")[:200]
