"""Second factor of logins: time-based codes of an authenticator app (TOTP, RFC 6238), and recovery codes.

The secret is encrypted by the vault; of recovery codes only digests are stored. Each code is good for one login.
"""

import base64
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyotp
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, F, OuterRef
from django.utils import timezone
from django.utils.crypto import salted_hmac
from pyotp.exceptions import OTPVerificationError

from agents_app.rights import CREATE_AGENTS
from audit_app import services as audit
from audit_app.kernel.errors import Conflict, Forbidden, InvalidInput, RateLimited
from audit_app.rights import holds, rights
from sessions_app.identity import qr_code
from sessions_app.identity.principal import Unauthenticated
from sessions_app.models import RecoveryCode, SecondFactor
from tools_app.secrets import vault

_ISSUER = "Komand"
_CLOCK_STEPS = 1  # a code of the step before or after is accepted: clocks differ
_FREE_FAILURES = 5
_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=30), timedelta(minutes=15)
_RECOVERY_CODES, _RECOVERY_BYTES = 10, 10  # 80 bits each


class CodeRequired(Unauthenticated):
    """Send the code of your authenticator app, or a recovery code, as `code` together with the password."""

    code = "second_factor_required"


class CodeRefused(Unauthenticated):
    """Wrong code, or it was used already. Wait for the next code of your authenticator app."""

    code = "second_factor_refused"


class EnrolmentRequired(Forbidden):
    """Your account needs a second factor here. Log in on the page once, which sets it up."""

    code = "second_factor_enrolment_required"


class TooManyCodes(RateLimited):
    """Too many wrong codes. Wait and try again."""

    code = "too_many_codes"


@dataclass(frozen=True)
class Enrolment:
    """A secret to enter into an authenticator app.

    text: to type in.
    svg: a QR code of its address.
    """

    text: str
    svg: str


def is_enrolled(user: User) -> bool:
    return SecondFactor.objects.filter(user=user, confirmed_at__isnull=False).exists()


def list_superusers() -> list[tuple[User, bool]]:
    """Return the active superusers who log in by a password, each with whether a login asks for a code. One query."""
    confirmed = SecondFactor.objects.filter(user=OuterRef("pk"), confirmed_at__isnull=False)
    rows = User.objects.filter(is_superuser=True, is_active=True).annotate(is_enrolled=Exists(confirmed))
    is_used = settings.KOMAND_STAFF_SECOND_FACTOR != "off"
    return [(user, is_used and user.is_enrolled) for user in rows if user.has_usable_password()]


def is_asked(user: User) -> bool:
    """Return whether the user's logins need a code."""
    return settings.KOMAND_STAFF_SECOND_FACTOR != "off" and is_enrolled(user)


def must_enrol(user: User) -> bool:
    """Return whether the user may not log in without a second factor, and has none.

    KOMAND_STAFF_SECOND_FACTOR=required asks that of everybody who may enter the admin or has a right over objects of
    others.
    """
    if settings.KOMAND_STAFF_SECOND_FACTOR != "required" or is_enrolled(user):
        return False
    return user.is_staff or any(holds(user, right) for right in rights if right is not CREATE_AGENTS)


def check(user: User, code: str) -> None:
    """Check the second factor of a user whose password is right. Uses up the code. Owns its transactions.

    code: code of the app, or a recovery code; empty if the caller sent none.
    Raises CodeRequired, CodeRefused, EnrolmentRequired, TooManyCodes.
    """
    if must_enrol(user):
        raise EnrolmentRequired
    if not is_asked(user):
        return
    if not code:
        raise CodeRequired
    row = SecondFactor.objects.get(user=user)
    _count_attempt(row)
    if _use(row, code):
        return
    audit.record("SecondFactorRefused", actor=f"user:{user.pk}", details={"failures": row.failures + 1})
    raise CodeRefused


def begin_enrolment(user: User) -> Enrolment:
    """Return the secret to enter into an app, the same one until `confirm_enrolment`. Raises Conflict (enrolled)."""
    fresh = {"secret_sealed": vault.seal(pyotp.random_base32())}
    with transaction.atomic():
        row, _ = SecondFactor.objects.get_or_create(user=user, defaults=fresh)
    if row.confirmed_at is not None:
        raise Conflict("You have an authenticator app already. Remove it first.", code="enrolled")
    totp = _totp(row)
    name = user.email or user.get_username()
    uri = totp.provisioning_uri(name=name, issuer_name=_ISSUER)
    groups = [totp.secret[at : at + 4] for at in range(0, len(totp.secret), 4)]
    return Enrolment(" ".join(groups), qr_code.as_svg(uri))


def confirm_enrolment(user: User, code: str) -> tuple[str, ...]:
    """Switch the second factor on with a first code of the app. Returns the recovery codes, which are shown once.

    Raises CodeRefused, and InvalidInput (not_enrolling) without an enrolment.
    """
    row = SecondFactor.objects.filter(user=user, confirmed_at=None).first()
    if row is None:
        raise InvalidInput("There is nothing to confirm. Reload the page.", code="not_enrolling")
    if not _use_app_code(row, code):
        raise CodeRefused("Wrong code. Check the clock of your phone, and enter the code that it shows now.")
    with transaction.atomic():
        SecondFactor.objects.filter(pk=row.pk).update(confirmed_at=timezone.now(), failures=0)
        audit.record("SecondFactorAdded", actor=f"user:{user.pk}")
        return _new_recovery_codes(user)


def renew_recovery_codes(user: User) -> tuple[str, ...]:
    """Replace the recovery codes, and return the new ones. Raises InvalidInput (not_enrolled)."""
    if not is_enrolled(user):
        raise InvalidInput("Set up an authenticator app first.", code="not_enrolled")
    with transaction.atomic():
        audit.record("RecoveryCodesRenewed", actor=f"user:{user.pk}")
        return _new_recovery_codes(user)


def count_recovery_codes(user: User) -> int:
    return RecoveryCode.objects.filter(user=user).count()


def remove(user: User, *, actor: str) -> None:
    """Remove the second factor and the recovery codes. Idempotent."""
    with transaction.atomic():
        RecoveryCode.objects.filter(user=user).delete()
        if SecondFactor.objects.filter(user=user).delete()[0]:
            audit.record("SecondFactorRemoved", actor=actor, details={"user": user.pk})


def _count_attempt(row: SecondFactor) -> None:
    """Count an attempt as failed until its code turns out right, so that parallel guesses count as well."""
    now = timezone.now()
    seconds = _pause_until(row) - now.timestamp()
    if seconds > 0:
        raise TooManyCodes(retry_after_seconds=int(seconds) + 1)
    unchanged = SecondFactor.objects.filter(pk=row.pk, failures=row.failures)
    if not unchanged.update(failures=F("failures") + 1, failed_at=now):
        raise TooManyCodes("Another login with a code is in progress. Try again.", retry_after_seconds=1)


def _pause_until(row: SecondFactor) -> float:
    if row.failures < _FREE_FAILURES or row.failed_at is None:
        return 0.0
    pause = _FIRST_PAUSE * 2 ** min(row.failures - _FREE_FAILURES, 10)
    until: datetime = row.failed_at + min(pause, _LONGEST_PAUSE)
    return until.timestamp()


def _use(row: SecondFactor, code: str) -> bool:
    if not (_use_app_code(row, code) or _use_recovery_code(row.user, code)):
        return False
    SecondFactor.objects.filter(pk=row.pk).update(failures=0, failed_at=None)
    return True


def _use_app_code(row: SecondFactor, code: str) -> bool:
    """Use up a code of the app: neither it nor an earlier one is accepted again."""
    digits = "".join(code.split())
    try:
        step = _totp(row).verify_and_get_timecode(digits, valid_window=_CLOCK_STEPS)
    except OTPVerificationError:
        return False
    return bool(SecondFactor.objects.filter(pk=row.pk, last_step__lt=step).update(last_step=step))


def _use_recovery_code(user: User, code: str) -> bool:
    used = bool(RecoveryCode.objects.filter(user=user, digest=_digest(user, code)).delete()[0])
    if used:
        audit.record("RecoveryCodeUsed", actor=f"user:{user.pk}", details={"left": count_recovery_codes(user)})
    return used


def _new_recovery_codes(user: User) -> tuple[str, ...]:
    RecoveryCode.objects.filter(user=user).delete()
    codes = [base64.b32encode(secrets.token_bytes(_RECOVERY_BYTES)).decode().lower() for _ in range(_RECOVERY_CODES)]
    RecoveryCode.objects.bulk_create(RecoveryCode(user=user, digest=_digest(user, code)) for code in codes)
    return tuple("-".join(code[at : at + 4] for at in range(0, len(code), 4)) for code in codes)


def _digest(user: User, code: str) -> str:
    plain = "".join(code.lower().replace("-", "").split())
    return salted_hmac("komand.recovery_code", f"{user.pk}:{plain}", algorithm="sha256").hexdigest()


def _totp(row: SecondFactor) -> pyotp.TOTP:
    return pyotp.TOTP(vault.unseal(row.secret_sealed))
