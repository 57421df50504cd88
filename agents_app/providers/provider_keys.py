"""The keys of model providers: encrypted when they are entered, shown as a fingerprint alone."""

from django.utils.crypto import salted_hmac

from agents_app.models import ModelProvider
from audit_app import services as audit
from tools_app.secrets import vault


def fingerprint(key: str) -> str:
    """Return eight characters that identify a key without revealing it."""
    return salted_hmac("komand.provider-key", key, algorithm="sha256").hexdigest()[:8]


def set_key(row: ModelProvider, key: str) -> None:
    """Put an encrypted key into a row, which the caller saves. Call `record_key` after that."""
    row.api_key_sealed = vault.seal(key)


def record_key(row: ModelProvider, key: str) -> None:
    """Audit that a key was stored, by its fingerprint."""
    audit.record("CredentialStored", details={"provider": row.name, "fingerprint": fingerprint(key)})
