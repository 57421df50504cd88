"""Frozen data of the parts of messages: images, audio and files, and the voice notes among them. Pure."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class MessagePart:
    """An image, audio or file of a message, without its bytes.

    kind: image | audio | file.
    mime_type: read from the bytes.
    size_bytes: as stored.
    reference: by which `conversation_port` loads the bytes when a request is built.
    title: text that names the part, such as `Attached image a.png (image/png, 2.1 MB)`.
    text: that stands for the part where a model does not take it, such as the text of a PDF; empty for a note.
    """

    kind: str
    mime_type: str
    name: str
    size_bytes: int
    reference: str
    title: str
    text: str = ""

    @property
    def note(self) -> str:
        """Return the text that stands for the part in the content of its message while the part is not sent."""
        return self.note_with("")

    def note_with(self, reason: str) -> str:
        """Return the note with the reason why the part is not sent."""
        return self.text or f"[{self.title}: its content cannot be shown here{reason and f', because {reason}'}]"


@dataclass(frozen=True)
class LoadedPart(MessagePart):
    """A part with the bytes that are sent, which may be scaled: `mime_type` is theirs.

    In a `ModelRequest` all parts are loaded and the content of their message names them; a provider only encodes them.
    """

    data: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class OmittedPart:
    """A part that the model does not get. reason: for users, the end of a sentence."""

    reference: str
    name: str
    reason: str


@dataclass(frozen=True)
class VoiceNote:
    """An audio part of a run's message that is to be transcribed before the model gets it.

    provider: name of the model provider that transcribes it; empty for that of the run.
    model: empty for that of the provider.
    is_chosen: the channel account chooses transcription; else the provider of the run decides.
    """

    part: MessagePart
    provider: str = ""
    model: str = ""
    is_chosen: bool = False


@dataclass(frozen=True)
class VoiceNotes:
    """The voice notes of a run.

    pending: audio files to transcribe.
    failure: the reason why none could be, if the run's messages contain nothing else; else empty.
    """

    pending: tuple[VoiceNote, ...] = ()
    failure: str = ""


@dataclass(frozen=True)
class Transcript:
    """The result of a transcription.

    text: empty if it failed.
    failure: the reason, as the end of a sentence.
    """

    reference: str
    text: str = ""
    failure: str = ""
