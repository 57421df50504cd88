"""Posts anchors of the audit log to KOMAND_AUDIT_ANCHOR, signed by the Standard Webhooks specification."""

import json
from datetime import UTC, datetime

from django.conf import settings

from audit_app.chain.hashes import Anchor
from sessions_app.platforms import http
from sessions_app.platforms.base import SendError
from sessions_app.platforms.signed_post import post_signed


async def post_anchor(url: str, anchor: Anchor) -> None:
    """Post an anchor. Raises SendError unless the receiver accepts it. The operator's address may be private."""
    now, message_id = datetime.now(UTC), f"audit-{anchor.seal}"
    data = {"anchor": str(anchor), "seal": anchor.seal, "entries": anchor.last, "hash": anchor.hash}
    body = json.dumps({"type": "audit.anchored", "timestamp": now.isoformat(), "data": data}).encode()
    keys = [settings.KOMAND_AUDIT_ANCHOR_SECRET]
    async with http.open_client() as client:
        response = await post_signed(client, url, body, keys=keys, message_id=message_id, now=now)
    if not response.is_success:
        raise SendError(
            f"The receiver of anchors answered with status {response.status_code}.",
            http.certainty_of(response.status_code),
        )
