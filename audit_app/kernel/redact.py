"""Masks secrets in values that are stored, logged or streamed."""

import json
import re
import threading
from base64 import b64encode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote, quote_plus, unquote_plus

MASK = "•••"
# A shorter value is not masked everywhere: it could be part of an ordinary word.
LEAST_CHARACTERS = 8

# A word of a name begins after a separator, or with a capital letter, as in `clientSecret`.
_SECRET_NAME = re.compile(
    r"(?:^|[_\-.]|(?<=[a-z0-9])(?=[A-Z]))"
    r"(?i:pass(?:word|wd|phrase)?|secret|token|api[_-]?key|authorization|credential|cookie|(?:private|secret|access)[_-]?key)s?$"
)
# Patterns that are secrets in any place: our own and providers' keys, bearer tokens, JWTs, URL passwords, PEM.
_SECRET_SHAPE = re.compile(
    r"sk-[A-Za-z0-9_\-]{16,}"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=\-]{12,}"
    r"|eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]+"
    r"|(?<=://)[^\s/:@]{0,256}:[^\s/@]{1,256}(?=@)"
    r"|-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----.{0,8192}?-----END [A-Z ]{0,32}PRIVATE KEY-----",
    re.DOTALL,
)

# A reference to a credential, whose name is no secret.
CREDENTIAL_REFERENCE = re.compile(r"\{\{\s*credential:\s*([A-Za-z0-9][A-Za-z0-9_.-]{0,119})\s*\}\}")
# Shown around a reference in a secret field, such as `Authorization: Bearer {{credential:NAME}}`.
_AUTH_SCHEME = re.compile(r"\s*(?:(?:basic|bearer|token|apikey|digest)\s+)?", re.IGNORECASE)
# A member of JSON text whose value is a string, at any depth of escaping; and a field of a form or query.
_JSON_MEMBER = re.compile(r"""((\\{0,63}")([^"\\]{1,100})\2\s{0,99}:\s{0,99}\2)(.{0,65536}?)(?<!\\)(?=\2)""", re.DOTALL)
_FORM_FIELD = re.compile(r"""((?:^|(?<=[&?;\s]))([\w.\-%\[\]]{1,100})=)([^&;\s"'<>\\]+)""")

# The secrets that this process has used, each with its encodings; the least recently used are dropped.
_MOST_REMEMBERED = 512
_remembered: OrderedDict[str, tuple[str, ...]] = OrderedDict()
_spellings: tuple[str, ...] = ()
_lock = threading.Lock()
_ESCAPED_BYTE = re.compile("%[0-9A-F]{2}")

# Stands for each character of a masked value until its length is written; no text has this code point.
_HIDDEN = "\ufdd0"
_HIDDEN_RUN = re.compile(f"{_HIDDEN}+")
# Returns what is shown in place of a secret.
_Mask = Callable[[str], str]


def _mask(secret: str) -> str:
    return MASK


def _hide(secret: str) -> str:
    return _HIDDEN * len(secret)


def remember(secret: str) -> None:
    """Mask this value from now on in all text that this process writes, in every usual encoding."""
    global _spellings
    value = secret.strip()
    if len(value) < LEAST_CHARACTERS:
        return
    with _lock:
        known = value in _remembered
        _remembered[value] = _remembered.get(value) or _spellings_of(value)
        _remembered.move_to_end(value)
        if len(_remembered) > _MOST_REMEMBERED:
            _remembered.popitem(last=False)
        if not known:
            # The longest first: one secret may be a prefix of another.
            every = {spelling for spellings in _remembered.values() for spelling in spellings}
            _spellings = tuple(sorted(every, key=len, reverse=True))


def without_remembered(text: str, mask: _Mask = _mask) -> str:
    """Return the text with every secret that this process has used replaced by the mask."""
    for spelling in _spellings:
        if spelling in text:
            text = text.replace(spelling, mask(spelling))
    return text


def masked_text(text: str, mask: _Mask = _mask) -> str:
    """Return the text with every secret that this process has used, or that looks like one, replaced by the mask."""
    return _SECRET_SHAPE.sub(lambda found: mask(found[0]), without_remembered(text, mask))


def masked(value: Any, *, name: str = "", mask: _Mask = _mask) -> Any:
    """Return a JSON value with secrets masked: by the name of their field, by their pattern, and those used."""
    if isinstance(value, dict):
        return {key: masked(item, name=str(key), mask=mask) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item, name=name, mask=mask) for item in value]
    if isinstance(value, str):
        return _masked_secret(value, mask) if value and _SECRET_NAME.search(name) else masked_text(value, mask)
    return value


def masked_arguments(arguments: Any) -> Any:
    """Return the arguments of a call as `masked` does, and with the secret fields of JSON and forms in their texts."""
    return _in_texts(masked(arguments), partial(_masked_fields, mask=_mask))


def masked_for_approver(arguments: Any) -> Any:
    """Return the arguments as `masked_arguments` does, with the length of each masked value.

    An approver has to see that data leaves, and how much.
    """
    hidden = _in_texts(masked(arguments, mask=_hide), partial(_masked_fields, mask=_hide))
    return _in_texts(hidden, lambda text: _HIDDEN_RUN.sub(_counted, text))


def _counted(found: re.Match[str]) -> str:
    return f"{MASK} ({len(found[0]):,} character{'s' if len(found[0]) > 1 else ''})"


def _in_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _in_texts(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_in_texts(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


def _masked_fields(text: str, mask: _Mask) -> str:
    """Return the text with the values of its secret fields masked. An approver has to see all else."""
    return _FORM_FIELD.sub(
        partial(_masked_field, mask=mask), _JSON_MEMBER.sub(partial(_masked_member, mask=mask), text)
    )


def _masked_member(found: re.Match[str], mask: _Mask) -> str:
    begin, _, name, value = found.groups()
    is_secret = value and _SECRET_NAME.search(name)
    return begin + (_masked_secret(value, mask) if is_secret else _masked_fields(value, mask))


def _masked_field(found: re.Match[str], mask: _Mask) -> str:
    begin, name, value = found.groups()
    plain = unquote_plus(name).replace("]", "").replace("[", ".")
    return begin + (_masked_secret(value, mask) if _SECRET_NAME.search(plain) else value)


def _masked_secret(text: str, mask: _Mask) -> str:
    """Return the mask, with the references to credentials that the text consists of."""
    *others, last = CREDENTIAL_REFERENCE.split(text)
    shown = [
        _masked_rest(rest, mask) + f"{{{{credential:{name}}}}}"
        for rest, name in zip(others[::2], others[1::2], strict=True)
    ]
    return "".join(shown) + (_masked_rest(last, mask) if shown else mask(last))


def _masked_rest(text: str, mask: _Mask) -> str:
    return text if _AUTH_SCHEME.fullmatch(text) else mask(text)


def _spellings_of(value: str) -> tuple[str, ...]:
    """Return the encodings in which a server may return it: raw, in JSON, in a URL or form, in base64, line by line."""
    data = value.encode(errors="replace")
    lines = [line.strip() for line in value.splitlines()]
    in_url = quote(value, safe="", errors="replace")
    spelled = {
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        repr(value)[1:-1],
        in_url,
        _ESCAPED_BYTE.sub(lambda escaped: escaped[0].lower(), in_url),
        quote_plus(value, errors="replace"),
        b64encode(data).decode().rstrip("="),
        urlsafe_b64encode(data).decode().rstrip("="),
        *(line for line in lines if len(line) >= 2 * LEAST_CHARACTERS),
    }
    return tuple(spelled)
