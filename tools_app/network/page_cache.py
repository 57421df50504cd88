"""A cache of fetched pages, per agent, so that reading on does not request the page again.

Each agent has a fixed number of slots, which new pages overwrite, so that its size is bounded. If Valkey is unavailable
or flushed, the cache is empty.
"""

import json
import logging
import zlib
from dataclasses import asdict, dataclass
from hashlib import sha256

from django.conf import settings
from redis.exceptions import RedisError

from audit_app.kernel import valkey
from tools_app.network.page_text import Readable

logger = logging.getLogger(__name__)

_SLOTS = 32
_MAX_BYTES = 256 * 1024


@dataclass(frozen=True)
class Page:
    """A page as it was read.

    url: after redirects.
    size_bytes: bytes of the body as far as it was read.
    """

    url: str
    status: int
    content: Readable
    size_bytes: int


def find(agent_id: str, url: str) -> Page | None:
    """Return the page of this URL, if the agent fetched it within KOMAND_FETCH_CACHE_SECONDS."""
    if not settings.KOMAND_FETCH_CACHE_SECONDS:
        return None
    try:
        packed = valkey.sync_client().get(_slot(agent_id, url))
    except RedisError as error:
        logger.warning("the page cache cannot be read: %s", error)
        return None
    if not isinstance(packed, bytes):
        return None
    kept = json.loads(zlib.decompress(packed))
    if kept["asked"] != url:  # another page has the same slot
        return None
    content = kept["page"].pop("content")
    links = tuple((text, address) for text, address in content.pop("links"))
    return Page(**kept["page"], content=Readable(**content, links=links))


def keep(agent_id: str, url: str, page: Page) -> None:
    """Store a page under the requested URL, unless it is too long."""
    seconds = settings.KOMAND_FETCH_CACHE_SECONDS
    if not seconds:
        return
    packed = zlib.compress(json.dumps({"asked": url, "page": asdict(page)}).encode(), 1)
    if len(packed) > _MAX_BYTES:
        return
    try:
        valkey.sync_client().set(_slot(agent_id, url), packed, ex=seconds)
    except RedisError as error:
        logger.warning("the page cache cannot be written: %s", error)


def _slot(agent_id: str, url: str) -> str:
    number = int.from_bytes(sha256(url.encode()).digest()[:4], "big") % _SLOTS
    return f"{settings.KOMAND_REDIS_PREFIX}fetched:{agent_id}:{number}"
