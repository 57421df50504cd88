"""The files that a run wrote, sent with its answer where the channel takes them, else as links that expire."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from uuid import UUID

from django.template.defaultfilters import filesizeformat

from audit_app.kernel.errors import NotFound, Unavailable
from sessions_app.channels import file_links
from sessions_app.models import Delivery
from sessions_app.platforms.base import SendCertainty, SendError
from sessions_app.platforms.messages import Capabilities, OutgoingFile
from tools_app.storage import artifacts
from tools_app.storage.artifacts import ArtifactView

# Further files are linked: each file is a message.
_MOST_SENT = 10


@dataclass(frozen=True)
class AnswerFiles:
    """sent: files to send.
    links: to the others, as Markdown, perhaps empty.
    """

    sent: tuple[ArtifactView, ...] = ()
    links: str = ""

    @property
    def names(self) -> str:
        """Return a text that stands before the sent files if there is no other, as Markdown."""
        return f"📎 {_escaped(', '.join(map(name_of, self.sent)))}"


NO_FILES = AnswerFiles()


def find(session_id: UUID, run_id: UUID, capabilities: Capabilities) -> AnswerFiles:
    """Return the files that the run wrote, by the way in which the channel gets them."""
    written = [file for file in artifacts.list_artifacts(session_id) if file.run_id == run_id]
    most = capabilities.file_bytes if capabilities.attachments_out else 0
    types = capabilities.file_types
    fitting = (file for file in written if file.size_bytes <= most and (not types or file.media_type in types))
    sent = tuple(fitting)[:_MOST_SENT]
    return AnswerFiles(sent, _links([file for file in written if file not in sent]))


def name_of(file: ArtifactView) -> str:
    """Return the name of a file without its folder."""
    return PurePosixPath(file.path).name


def load(delivery: Delivery) -> OutgoingFile | None:
    """Return the file of a delivery with its content, None if it has none.

    Raises SendError if it was deleted, or cannot be read just now.
    """
    if delivery.artifact_id is None:
        content = delivery.body.encode()
        return OutgoingFile(delivery.filename, "text/markdown", content) if delivery.filename else None
    try:
        found = artifacts.get_artifact(delivery.artifact_id)
        view, content = artifacts.read_artifact(found.session_id, found.path)
    except NotFound as error:
        raise SendError(error.message, SendCertainty.REFUSED) from None
    except Unavailable as error:
        raise SendError(error.message, SendCertainty.NOT_SENT) from None
    return OutgoingFile(delivery.filename, view.media_type, content, file_links.make(found.id, found.session_id))


def _links(files: Sequence[ArtifactView]) -> str:
    lines = []
    for file in files:
        title, url = f"{name_of(file)} ({filesizeformat(file.size_bytes)})", file_links.make(file.id, file.session_id)
        lines.append(f"- [{_escaped(title)}]({url})" if url else f"- {_escaped(title)}: cannot be sent here")
    return "\n".join(("Files:", "", *lines)) if lines else ""


def _escaped(text: str) -> str:
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>~" else sign for sign in text)
