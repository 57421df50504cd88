"""E-mail: a mailbox by IMAP, answers by SMTP, a thread for each person."""

from email.message import EmailMessage
from typing import Any

from tests.fakes.mail_server import PASSWORD, VERIFIED, FakeMailServer, mail_from
from tests.installed.platforms.base import FORGED, Platform


class Email(Platform[FakeMailServer]):
    channel = "email"
    buttons = False

    def __init__(self) -> None:
        super().__init__()
        self.server = FakeMailServer()
        self._threads: dict[str, str] = {}

    def config(self) -> dict[str, Any]:
        return self.server.config

    def secrets(self) -> dict[str, str]:
        return {"password": PASSWORD}

    def sender_id(self, number: int) -> str:
        return f"person{number}@example.org"

    def message(self, person: str, text: str, file: bytes = b"") -> Any:
        return self._mail(person, text, file, VERIFIED)

    def deliver(self, message: Any) -> None:
        self.server.arrive(message)

    def texts(self, person: str) -> list[str]:
        bodies = [mail.get_body(("plain",)) for mail in self._sent(person)]
        return [text for body in bodies if body and (text := body.get_content().strip())]

    def files(self, person: str) -> list[bytes]:
        files = [file for mail in self._sent(person) for file in mail.iter_attachments()]
        return [f"{file.get_filename()}\n{file.get_content()}".encode() for file in files]

    def forge(self, person: str) -> int | None:
        refused = VERIFIED.replace("pass", "fail")
        self.deliver(self._mail(person, FORGED, b"", refused))
        return None

    def _sent(self, person: str) -> list[EmailMessage]:
        return [mail for mail in list(self.server.sent) if mail["To"] == person]

    def _mail(self, person: str, text: str, file: bytes, results: str) -> EmailMessage:
        number = next(self.numbers)
        thread = self._threads.setdefault(person, f"<m{number}@example.org>")
        is_first = thread == f"<m{number}@example.org>"
        mail = mail_from(
            number, text, sender=person, References="" if is_first else thread, Authentication_Results=results
        )
        if file:
            mail.add_attachment(file, maintype="text", subtype="plain", filename="notes.txt")
        return mail
