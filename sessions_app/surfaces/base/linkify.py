"""Detection of web addresses in plain text, in linear time. Pure."""

import re
from collections.abc import Iterator

# One pass, no backtracking: an address ends at the first character that an address cannot hold.
_ADDRESS = re.compile(r"(?<![\w@])https?://[^\s<>\"'`{}|\\^\[\]]{1,2000}", re.IGNORECASE)
_TRAILING = ".,:;!?*_~"
_HAS_HOST = re.compile(r"https?://[\w\[]", re.IGNORECASE)


def pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of the text, each with whether it is an address. Addresses have a scheme and a host."""
    end = 0
    for match in _ADDRESS.finditer(text):
        address = _trimmed(match.group())
        if not _HAS_HOST.match(address):
            continue
        if match.start() > end:
            yield text[end : match.start()], False
        yield address, True
        end = match.start() + len(address)
    if end < len(text):
        yield text[end:], False


def _trimmed(address: str) -> str:
    """Return the address without punctuation at its end; a bracket stays if it is opened in the address."""
    surplus = address.count(")") - address.count("(")
    end = len(address)
    while end and (address[end - 1] in _TRAILING or (address[end - 1] == ")" and surplus > 0)):
        surplus -= address[end - 1] == ")"
        end -= 1
    return address[:end]
