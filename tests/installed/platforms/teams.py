"""Teams: its service calls the messaging endpoint, at a public address or behind a tunnel."""

import json
from typing import Any

from tests.fakes.teams import PASSWORD, FakeTeams, activity, headers_for
from tests.installed.platforms.base import FORGED, Platform

_FILE = "application/vnd.microsoft.teams.file.download.info"


class TeamsService(FakeTeams):
    """The service, which also keeps the activities that each chat shows, by their ids."""

    def __init__(self) -> None:
        super().__init__()
        self.chats: dict[str, dict[str, dict[str, Any]]] = {}

    def _activity(self, activity: dict[str, Any], chat: str, activity_id: str) -> tuple[int, dict[str, str], bytes]:
        answer = super()._activity(activity, chat, activity_id)
        if answer[0] == 201 and activity["type"] == "message":
            self.chats.setdefault(chat, {})[json.loads(answer[2])["id"]] = activity
        return answer


class Teams(Platform[TeamsService]):
    channel = "teams"
    takes_files = False

    def __init__(self) -> None:
        super().__init__()
        self.server = TeamsService()

    @property
    def private_addresses(self) -> list[str]:
        return [self.server.address]

    def config(self) -> dict[str, Any]:
        return self.server.config

    def secrets(self) -> dict[str, str]:
        return {"app_password": PASSWORD}

    def sender_id(self, number: int) -> str:
        return f"29:user-{number}"

    def message(self, person: str, text: str, file: bytes = b"") -> Any:
        number = next(self.numbers)
        path = f"/public/notes-{number}"
        self.server.files[path] = file
        sent = {"contentType": _FILE, "name": "notes.txt", "content": {"downloadUrl": self.server.url + path}}
        return self._activity_of(person, number, text, **({"attachments": [sent]} if file else {}))

    def deliver(self, message: Any) -> None:
        assert self._post(message) == 200

    def texts(self, person: str) -> list[str]:
        return [_text(one) for one in self._shown(person).values()]

    def press(self, person: str, label: str) -> None:
        activity_id, data = self.button(lambda: self._button(person, label))
        value = {"action": {"type": "Action.Execute", "verb": "press", "data": data}}
        pressed = {"type": "invoke", "name": "adaptiveCard/action", "value": value, "replyToId": activity_id}
        self.deliver(self._activity_of(person, next(self.numbers), "", **pressed))

    def forge(self, person: str) -> int | None:
        return self._post(self.message(person, FORGED), key="key-of-another")

    def _activity_of(self, person: str, number: int, text: str, **more: Any) -> dict[str, Any]:
        place = {**activity(0)["conversation"], "id": _chat(person)}
        who = {"id": person, "name": "Zoë", "aadObjectId": f"dir-{person}"}
        return activity(number, text, service=self.server.url, conversation=place, **{"from": who}, **more)

    def _shown(self, person: str) -> dict[str, dict[str, Any]]:
        return dict(self.server.chats.get(_chat(person), {}))

    def _button(self, person: str, label: str) -> tuple[str, Any] | None:
        for activity_id, shown in self._shown(person).items():
            for card in shown.get("attachments", ()):
                found = {action["title"]: action["data"] for action in card["content"].get("actions", ())}
                if label in found:
                    return activity_id, found[label]
        return None

    def _post(self, message: Any, **signature: Any) -> int:
        body = json.dumps(message).encode()
        return self.post(body, headers_for(body, **signature))


def _chat(person: str) -> str:
    return f"a:{person}"


def _text(shown: dict[str, Any]) -> str:
    """Return the text of an activity and of its cards."""
    blocks = [block for card in shown.get("attachments", ()) for block in card["content"].get("body", ())]
    return "\n".join(filter(None, (shown.get("text", ""), *(block.get("text", "") for block in blocks))))
