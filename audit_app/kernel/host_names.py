"""Names of hosts as people decide by them: in ASCII, because letters of other scripts may look alike. Pure."""

# Letters that browsers keep, and the older standard of Python's codec maps or drops.
READ_DIFFERENTLY = frozenset("\xdf\u03c2\u200c\u200d")


def in_ascii(host: str) -> str:
    """Return the host as a browser looks it up: `xn--pple-43d.com` for one with a Cyrillic letter in place of the a."""
    if host.isascii():
        return host
    try:
        if READ_DIFFERENTLY.isdisjoint(host):
            return host.encode("idna").decode("ascii")
    except UnicodeError:
        pass  # no valid name: shown, not looked up
    return ".".join(map(punycode, host.lower().split(".")))


def with_letters(authority: str) -> str:
    """Return a host in ASCII, perhaps with a port, and as it is written if that differs."""
    try:
        letters = authority.encode("ascii").decode("idna") if "xn--" in authority else ""
    except UnicodeError:
        letters = ""
    return f"{authority} ({letters})" if letters else authority


def punycode(label: str) -> str:
    return label if label.isascii() else f"xn--{label.encode('punycode').decode('ascii')}"
