"""Addresses of artifacts that carry their own credential: for one file, one purpose, and some minutes.

Whoever has such an address may use it, so it is short-lived and says no more than it has to.
"""

from dataclasses import asdict, dataclass
from typing import Literal
from urllib.parse import quote

from django.core import signing

from audit_app.kernel.errors import Forbidden

SECONDS = 900
PREFIX = "api/v1/artifact-blobs"
_SALT = "komand.agents.artifact"


class UrlRefused(Forbidden):
    """This address is not valid (any more). Ask for a new one."""

    code = "url_refused"


@dataclass(frozen=True)
class Grant:
    """What an address allows. filename: to save it as, for reading."""

    use: Literal["get", "put"]
    session_id: str
    path: str
    owner_id: int
    disposition: str = "inline"
    filename: str = ""


def sign(base_url: str, grant: Grant) -> str:
    """An absolute address. base_url: scheme and host, without a slash at the end."""
    token = signing.dumps(asdict(grant), salt=_SALT, compress=True)
    name = quote(grant.path.rpartition("/")[2], safe="")
    return f"{base_url}/{PREFIX}/{token}/{name}"


def read(token: str) -> Grant:
    """Raises UrlRefused."""
    try:
        return Grant(**signing.loads(token, salt=_SALT, max_age=SECONDS))
    except (signing.BadSignature, TypeError):
        raise UrlRefused from None
