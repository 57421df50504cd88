"""The parts of messages that models take, with their limits. Pure."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from agents_app.types import MessagePart

KINDS = frozenset({"image", "audio", "file"})
_PLURAL = {"image": "images", "audio": "audio", "file": "files"}
_IMAGE_NAMES = re.compile(
    r"gpt-4o|gpt-4\.1|gpt-4-turbo|gpt-[5-9]|chatgpt-4o|\bo1\b|\bo3\b|\bo4\b|claude|gemini|gemma-?[34]|llama-?4|pixtral|llava"
    r"|[-.]vl\b|vision|internvl|minicpm-v|moondream|mistral-(small|medium)-(3|latest)|grok-4|qwen3\.5"
)
_WITHOUT_IMAGES = re.compile(
    r"o[134]-mini-deep|o1-mini|o1-preview|o3-mini|audio|realtime|transcribe|tts|embed|image-gen|gemma-?3[-:](270m|1b)"
)
_AUDIO_NAMES = re.compile(r"gpt-audio|gpt-4o(-mini)?-audio|omni|voxtral")


class UnusablePartError(Exception):
    """A part that cannot be sent. Its text is the reason, as the end of a sentence."""


@dataclass(frozen=True)
class Accepts:
    """The parts that a request may contain.

    types: media types by kind of part; a kind without an entry is not taken.
    most_parts: parts of a request; the newest are sent.
    most_bytes: bytes of one part.
    most_bytes_together: bytes of all parts of a request.
    longest_side: side of an image, in pixels; a larger one is scaled.
    """

    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    most_parts: int = 20
    most_bytes: int = 8_000_000
    most_bytes_together: int = 24_000_000
    longest_side: int = 2_048

    def only(self, kinds: Collection[str]) -> "Accepts":
        """Return the same limits for these kinds of parts alone."""
        return replace(self, types={kind: types for kind, types in self.types.items() if kind in kinds})

    def objection(self, part: MessagePart) -> str:
        """Return the reason why a part cannot be sent; empty if it can, or can after scaling."""
        types = self.types.get(part.kind)
        if types is None:
            return f"the model does not accept {_PLURAL[part.kind]}"
        if part.mime_type not in types:
            return f"the model does not accept {part.mime_type}"
        if part.kind != "image" and part.size_bytes > self.most_bytes:
            return f"it has more than {self.most_bytes / 1_000_000:.0f} MB"
        return ""


NOTHING = Accepts()


def kinds_by_name(model: str) -> frozenset[str]:
    """Return the kinds of parts that models of this name are known to take: images or audio, or none."""
    name = model.lower()
    audio = {"audio"} if _AUDIO_NAMES.search(name) else set()
    images = {"image"} if _IMAGE_NAMES.search(name) and not _WITHOUT_IMAGES.search(name) else set()
    return frozenset(images | audio)


def chosen_kinds(setting: str) -> frozenset[str] | None:
    """Return the kinds that an operator has chosen for a provider; None if the model's name decides.

    setting: empty, `none`, or kinds with commas between them.
    """
    return (KINDS & set(setting.split(","))) if setting else None
