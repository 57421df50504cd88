"""Posts anchors of the audit log to KOMAND_AUDIT_ANCHOR, signed by the Standard Webhooks specification."""

import json
from datetime import UTC, datetime

from django.conf import settings

from audit_app.chain.hashes import Anchor
from sessions_app.platforms import http
from sessions_app.platforms.base import SendError
from sessions_app.platforms.signatures import sign


async def post_anchor(url: str, anchor: Anchor) -> None:
    """Post an anchor. Raises SendError unless the receiver accepts it. The operator's address may be private."""
    now, message_id = datetime.now(UTC), f"audit-{anchor.seal}"
    data = {"anchor": str(anchor), "seal": anchor.seal, "entries": anchor.last, "hash": anchor.hash}
    body = json.dumps({"type": "audit.anchored", "timestamp": now.isoformat(), "data": data}).encode()
    headers = _signed_headers(message_id, now, body)
    async with http.open_client() as client:
        response, _ = await http.post(client, url, content=body, headers=headers)
    if not response.is_success:
        raise SendError(
            f"The receiver of anchors answered with status {response.status_code}.",
            http.certainty_of(response.status_code),
        )


def _signed_headers(message_id: str, now: datetime, body: bytes) -> dict[str, str]:
    return {
        "content-type": "application/json",
        "user-agent": "Komand",
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": sign(settings.KOMAND_AUDIT_ANCHOR_SECRET, message_id, now, body),
    }
