"""The author of a text that a session holds. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Author:
    """The author of a text: a person here in own words, or anybody else.

    origins: of what an agent had read from outside when it wrote the text, or of a text that came from outside; None: a
        person.
    """

    origins: tuple[str, ...] | None = None

    @classmethod
    def of(cls, stored: str | None) -> "Author":
        """Return the author by the column `origins` of the text."""
        return cls(None if stored is None else tuple(stored.splitlines()))

    @classmethod
    def of_all(cls, authors: Iterable["Author"]) -> "Author":
        """Return the author of joined texts: a person if all of them are a person's."""
        others = [author.origins for author in authors if author.origins is not None]
        return cls(tuple(dict.fromkeys(origin for origins in others for origin in origins)) if others else None)

    @property
    def stored(self) -> str | None:
        """Return the column `origins` of the text."""
        return None if self.origins is None else "\n".join(self.origins)


PERSON = Author()
