"""Signed URLs of artifacts: each carries the permission to read or write one file, for 15 minutes.

Clients of the protocol send no credential with such a URL. It ends with the login or key that requested it, and belongs
to the first reader who uses it: retries and ranges of one download work, a copy in a log does not.
"""

import hashlib
import logging
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Literal
from urllib.parse import quote

import jwt
from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from redis.exceptions import RedisError

from audit_app.kernel import valkey
from audit_app.kernel.errors import Forbidden
from sessions_app.identity import client_ip, session_tokens, signed_claims
from sessions_app.identity.principal import Principal

logger = logging.getLogger(__name__)

SECONDS = 900
PREFIX = "api/v1/artifact-blobs"
_AUDIENCE = "komand:file"


class UrlRefused(Forbidden):
    """This URL is invalid, has expired or belongs to another reader. Request a new one."""

    code = "url_refused"


@dataclass(frozen=True)
class FileAccess:
    """The access that a URL gives. disposition, filename: of the download, for `get`."""

    use: Literal["get", "put"]
    session_id: str
    path: str
    disposition: str = "inline"
    filename: str = ""


def sign(base_url: str, access: FileAccess, principal: Principal) -> str:
    """Return an absolute URL.

    base_url: scheme and host, without a trailing slash.
    principal: principal of the request for it.
    """
    claims = {"file": asdict(access), "of": principal.credential}
    token = signed_claims.encode(principal.user, _AUDIENCE, timedelta(seconds=SECONDS), claims)
    name = quote(access.path.rpartition("/")[2], safe="")
    return f"{base_url}/{PREFIX}/{token}/{name}"


def read(token: str, request: HttpRequest) -> tuple[FileAccess, User]:
    """Return the access of a token and its user, for the first reader and for no other. Raises UrlRefused.

    While Valkey is unavailable, a URL can be used by several readers.
    """
    try:
        claims = signed_claims.decode(token, _AUDIENCE, "jti", "file", "of")
    except jwt.InvalidTokenError:
        raise UrlRefused from None
    user = signed_claims.find_user(claims)
    if user is None or not session_tokens.is_valid_credential(claims["of"]) or not _is_reader(claims["jti"], request):
        raise UrlRefused
    return FileAccess(**claims["file"]), user


def _is_reader(token_id: str, request: HttpRequest) -> bool:
    """Return whether the request is of the reader who used the URL first, which is now if nobody has."""
    network = client_ip.network_of(client_ip.of_request(request))
    reader = hashlib.sha256(f"{network} {request.headers.get('User-Agent', '')}".encode()).hexdigest()
    key = f"{settings.KOMAND_REDIS_PREFIX}file:{token_id}"
    try:
        known = valkey.sync_client().set(key, reader, nx=True, get=True, ex=SECONDS * 2)
    except RedisError as error:
        logger.warning("cannot check the reader of a signed URL: %s", error)
        return True
    return known is None or known in (reader, reader.encode())
