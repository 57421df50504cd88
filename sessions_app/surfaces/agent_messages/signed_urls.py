"""Signed URLs of artifacts: each carries the permission to read or write one file, for 15 minutes."""

from dataclasses import asdict, dataclass
from typing import Literal
from urllib.parse import quote

from django.core import signing

from audit_app.kernel.errors import Forbidden

SECONDS = 900
PREFIX = "api/v1/artifact-blobs"
_SALT = "komand.agents.artifact"


class UrlRefused(Forbidden):
    """This URL is invalid or has expired. Request a new one."""

    code = "url_refused"


@dataclass(frozen=True)
class FileAccess:
    """The access that a URL gives. disposition, filename: of the download, for `get`."""

    use: Literal["get", "put"]
    session_id: str
    path: str
    owner_id: int
    disposition: str = "inline"
    filename: str = ""


def sign(base_url: str, access: FileAccess) -> str:
    """Return an absolute URL. base_url: scheme and host, without a trailing slash."""
    token = signing.dumps(asdict(access), salt=_SALT, compress=True)
    name = quote(access.path.rpartition("/")[2], safe="")
    return f"{base_url}/{PREFIX}/{token}/{name}"


def read(token: str) -> FileAccess:
    """Return the access of a token. Raises UrlRefused."""
    try:
        return FileAccess(**signing.loads(token, salt=_SALT, max_age=SECONDS))
    except (signing.BadSignature, TypeError):
        raise UrlRefused from None
