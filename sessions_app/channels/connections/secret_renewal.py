"""Renewal of secrets that end: the platform returns others in their place, such as refresh tokens of OAuth."""

import logging
from collections.abc import Mapping
from datetime import timedelta

from django.utils import timezone

from audit_app.kernel.database import in_db
from audit_app.kernel.outage import outages
from sessions_app.channels import accounts
from sessions_app.models import ChannelAccount
from sessions_app.platforms.base import ChannelAdapter, SendError
from tools_app.secrets import credentials

logger = logging.getLogger(__name__)

_EVERY = timedelta(days=1)  # also what keeps a renewal, which changes the account, from being followed by another


async def renew(account: ChannelAccount, adapter: ChannelAdapter) -> None:
    """Store the secrets that replace the account's, unless it was changed in the last day. Raises nothing."""
    if timezone.now() - account.updated_at < _EVERY:
        return
    try:
        if renewed := await adapter.renew_secrets():
            await in_db(_store, account, renewed)
    except SendError as error:  # the connection meets the same problem, and reports it
        logger.info("%s: no secrets were renewed: %s", account, error.message)
    except Exception as error:
        outages.failed(logger, error, f"the renewed secrets of {account} could not be stored")


def _store(account: ChannelAccount, renewed: Mapping[str, str]) -> None:
    """Store new secrets, unless the account has changed since it was read.

    A credential that a secret refers to may be used elsewhere, too, and is not replaced.
    """
    stored = accounts.get_account(account.channel, account.account_id)
    known = accounts.kept_secrets(stored, {})
    own = {name: secret for name, secret in renewed.items() if not credentials.find_references(known.get(name, ""))}
    if own and stored.updated_at == account.updated_at:
        accounts.change_account(stored, secrets=own)
