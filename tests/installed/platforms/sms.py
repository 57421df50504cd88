"""SMS of Twilio: its list of messages without a public address, else its requests."""

from typing import Any
from urllib.parse import urlencode

from tests.fakes.twilio import ACCOUNT_SID, NUMBER, TOKEN, FakeTwilio, message_form, sid, signature_of
from tests.installed.platforms.base import FORGED, Platform


class Sms(Platform[FakeTwilio]):
    channel = "sms"
    registers = True
    takes_files = False
    buttons = False

    def __init__(self) -> None:
        super().__init__()
        self.server = FakeTwilio()

    def config(self) -> dict[str, Any]:
        # Twilio's list is asked every 10 s by default, which says nothing about how soon a run begins.
        polls = {} if self.has_public_address else {"poll_seconds": 1}
        return {"account_sid": ACCOUNT_SID, "number": NUMBER, "api_url": self.server.url, **polls}

    def secrets(self) -> dict[str, str]:
        return {"auth_token": TOKEN}

    def sender_id(self, number: int) -> str:
        return f"+1555000{number:04}"

    def message(self, person: str, text: str, file: bytes = b"") -> Any:
        number = next(self.numbers)
        media = f"ME{number}"
        self.server.media[media] = file
        return number, text, person, (media,) if file else ()

    def deliver(self, message: Any) -> None:
        number, text, person, media = message
        if self.has_public_address:
            assert self._post(message) == 200
        else:
            self.server.queue(number, text, sender=person, media=media)

    def texts(self, person: str) -> list[str]:
        return [sent["Body"] for sent in list(self.server.sent) if sent["To"] == person]

    def forge(self, person: str) -> int | None:
        return self._post(self.message(person, FORGED), "another-token") if self.has_public_address else None

    def _post(self, message: Any, token: str = TOKEN) -> int:
        number, text, person, media = message
        place = f"{self.server.url}/2010-04-01/Accounts/{ACCOUNT_SID}/Messages/{sid(number)}/Media"
        files = {f"MediaUrl{at}": f"{place}/{one}" for at, one in enumerate(media)}
        body = urlencode(message_form(number, text, sender=person, NumMedia=str(len(media)), **files)).encode()
        url = f"{self.installation.public_url}{self.path}"
        kind = {"content-type": "application/x-www-form-urlencoded"}
        return self.post(body, {**kind, "x-twilio-signature": signature_of(url, body, token)})
