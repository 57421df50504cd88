"""Access and refresh tokens of API logins."""

import jwt
import pytest
from django.contrib.auth.models import User

from audit_app.models import AuditEntry
from sessions_app.identity import access_tokens
from sessions_app.identity.access_tokens import TokenRefused
from sessions_app.models import RefreshToken

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _full_name(alice: User) -> None:
    alice.first_name, alice.last_name = "Alice", "Adams"
    alice.save()


def _claims(token: str) -> dict:
    return jwt.decode(token, options={"verify_signature": False})


def _forged(settings, alice: User, *, key: str = "", algorithm: str = "HS256", **changes) -> str:
    claims = {**_claims(access_tokens.open_login(alice).access), **changes}
    return jwt.encode({k: v for k, v in claims.items() if v is not None}, key or settings.KOMAND_JWT_KEY, algorithm)


def test_access_token_names_its_user(alice):
    assert access_tokens.authenticate_token(access_tokens.open_login(alice).access).user == alice


def test_access_token_carries_the_promised_claims(alice, settings):
    token = access_tokens.open_login(alice).access
    claims = _claims(token)
    assert jwt.get_unverified_header(token)["alg"] == "HS256"
    assert claims["sub"] == str(alice.pk)
    assert (claims["email"], claims["name"]) == ("alice@example.org", "Alice Adams")
    assert (claims["iss"], claims["aud"]) == ("komand.ai", "komand.ai")
    assert claims["exp"] - claims["iat"] == settings.KOMAND_JWT_MINUTES * 60


def test_expired_access_token_is_refused_by_name(alice, settings):
    settings.KOMAND_JWT_MINUTES = -1
    with pytest.raises(TokenRefused) as refusal:
        access_tokens.authenticate_token(access_tokens.open_login(alice).access)
    assert refusal.value.code == "token_expired"


@pytest.mark.parametrize(
    "changes",
    [{"key": "x" * 40}, {"aud": "elsewhere"}, {"iss": "elsewhere"}, {"exp": None}, {"sub": None}, {"cred": "0" * 16}],
    ids=lambda changes: next(iter(changes)),
)
def test_forged_access_token_is_refused(alice, settings, changes):
    assert access_tokens.authenticate_token(_forged(settings, alice)).user == alice
    with pytest.raises(TokenRefused):
        access_tokens.authenticate_token(_forged(settings, alice, **changes))


def test_unsigned_access_token_is_refused(alice):
    claims = _claims(access_tokens.open_login(alice).access)
    with pytest.raises(TokenRefused):
        access_tokens.authenticate_token(jwt.encode(claims, None, algorithm="none"))


@pytest.mark.parametrize("text", ["", "x", "a.b.c", "rt_", "rt_" + "0" * 75, "é" * 40])
def test_garbage_is_refused(text):
    with pytest.raises(TokenRefused):
        access_tokens.authenticate_token(text)
    with pytest.raises(TokenRefused):
        access_tokens.rotate(text)
    access_tokens.close_login(text)


def test_deactivated_user_is_refused(alice):
    pair = access_tokens.open_login(alice)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    with pytest.raises(TokenRefused):
        access_tokens.authenticate_token(pair.access)
    with pytest.raises(TokenRefused):
        access_tokens.rotate(pair.refresh)


def test_new_password_ends_every_login(alice):
    pair = access_tokens.open_login(alice)
    alice.set_password("another-secret")
    alice.save()
    with pytest.raises(TokenRefused):
        access_tokens.authenticate_token(pair.access)
    with pytest.raises(TokenRefused):
        access_tokens.rotate(pair.refresh)


def test_refresh_gives_a_new_pair_and_keeps_the_old_access_token(alice):
    first = access_tokens.open_login(alice)
    second = access_tokens.rotate(first.refresh)
    assert second.refresh.startswith("rt_")
    assert second.refresh != first.refresh
    assert {access_tokens.authenticate_token(pair.access).user for pair in (first, second)} == {alice}


def test_refresh_token_used_twice_ends_the_whole_login(alice):
    first = access_tokens.open_login(alice)
    second = access_tokens.rotate(first.refresh)
    with pytest.raises(TokenRefused):
        access_tokens.rotate(first.refresh)
    with pytest.raises(TokenRefused):
        access_tokens.rotate(second.refresh)
    with pytest.raises(TokenRefused):
        access_tokens.authenticate_token(second.access)
    assert AuditEntry.objects.filter(action="RefreshTokenReused", actor=f"user:{alice.pk}").count() == 1


def test_reuse_leaves_other_logins_alone(alice):
    phone, laptop = access_tokens.open_login(alice), access_tokens.open_login(alice)
    access_tokens.rotate(phone.refresh)
    with pytest.raises(TokenRefused):
        access_tokens.rotate(phone.refresh)
    assert access_tokens.authenticate_token(access_tokens.rotate(laptop.refresh).access).user == alice


def test_expired_refresh_token_is_refused_and_forgotten_at_the_next_login(alice, settings):
    settings.KOMAND_REFRESH_DAYS = -1
    old = access_tokens.open_login(alice)
    with pytest.raises(TokenRefused):
        access_tokens.rotate(old.refresh)
    settings.KOMAND_REFRESH_DAYS = 7
    access_tokens.open_login(alice)
    assert RefreshToken.objects.filter(user=alice).count() == 1


@pytest.mark.parametrize("by", ["access", "refresh"])
def test_logout_ends_access_and_refresh_at_once(alice, by):
    pair = access_tokens.open_login(alice)
    if by == "access":
        access_tokens.close_login_of(pair.access)
    else:
        access_tokens.close_login(pair.refresh)
    with pytest.raises(TokenRefused):
        access_tokens.authenticate_token(pair.access)
    with pytest.raises(TokenRefused):
        access_tokens.rotate(pair.refresh)


def test_refresh_tokens_are_stored_as_digests_only(alice):
    pair = access_tokens.open_login(alice)
    row = RefreshToken.objects.get(user=alice)
    assert pair.refresh not in str(vars(row))
    assert pair.refresh[35:] not in str(vars(row))
