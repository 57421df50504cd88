"""Verification of requests: signatures, their lifetime, and malformed ones."""

import base64
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sessions_app.platforms.signatures import BadKeyError, check_key, is_signed, make_secret, same_secret, sign
from tests.fakes.webhook_receiver import SECRET, signature_of

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
AT = str(int(NOW.timestamp()))
BODY = '{"text": "Zoë 👋"}'.encode()
OTHER = make_secret()


def check(**changed) -> bool:
    given = {
        "message_id": "msg_1",
        "timestamp": AT,
        "signatures": signature_of("msg_1", AT, BODY),
        "body": BODY,
        "now": NOW,
    }
    return is_signed(changed.pop("keys", [SECRET]), **{**given, **changed})


def at(offset: int) -> dict[str, str]:
    timestamp = str(int(AT) + offset)
    return {"timestamp": timestamp, "signatures": signature_of("msg_1", timestamp, BODY)}


def test_what_was_signed_with_the_secret_is_ours():
    assert check()
    assert check(signatures=sign(SECRET, "msg_1", NOW, BODY))
    assert check(keys=[OTHER, SECRET]) and check(keys=[SECRET, OTHER])
    assert check(signatures=f"v2,xyz v1,AAAA {signature_of('msg_1', AT, BODY)}")
    assert check(keys=[SECRET.removeprefix("whsec_").rstrip("=")])


@pytest.mark.parametrize("offset", [-300, -200, 0, 300])
def test_it_is_fresh_for_five_minutes(offset):
    assert check(**at(offset))


@pytest.mark.parametrize("offset", [-301, 301, -3600, 10**7])
def test_it_is_too_old_or_from_the_future_after(offset):
    assert not check(**at(offset))


@pytest.mark.parametrize(
    "changed",
    [
        {"keys": []},
        {"keys": [""]},
        {"keys": ["whsec_"]},
        {"keys": [OTHER]},
        {"signatures": ""},
        {"signatures": "v1"},
        {"signatures": "v1,"},
        {"signatures": "v1,***"},
        {"signatures": signature_of("msg_1", AT, BODY).replace("v1,", "v1a,")},
        {"signatures": signature_of("msg_1", AT, BODY).replace("v1,", "V1,")},
        {"signatures": signature_of("msg_1", AT, BODY)[:-2]},
        {"signatures": signature_of("msg_2", AT, BODY)},
        {"signatures": signature_of("msg_1", AT, BODY, OTHER)},
        {"timestamp": ""},
        {"timestamp": "now"},
        {"timestamp": AT + ".0"},
        {"timestamp": "-" + AT},
        {"timestamp": "٣"},
        {"timestamp": "9" * 400},
        {"message_id": ""},
        {"message_id": "msg.1"},
        {"body": BODY + b" "},
        {"body": BODY.decode().encode("utf-16")},
        {"body": b""},
    ],
)
def test_anything_else_is_not(changed):
    assert check(**changed) is False


def test_a_sender_may_sign_with_its_own_key():
    private = Ed25519PrivateKey.generate()
    raw = private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    key = "whpk_" + base64.b64encode(raw).decode()
    signature = "v1a," + base64.b64encode(private.sign(f"msg_1.{AT}.".encode() + BODY)).decode()
    check_key(key, is_public=key.startswith("whpk_"))
    assert check(keys=[key], signatures=signature)
    assert not check(keys=[key], signatures=signature.replace("v1a,", "v1,"))
    assert not check(keys=[key], signatures=signature, body=BODY + b" ")


@pytest.mark.parametrize("key", ["", "whsec_", "whsec_c2hvcnQ=", "whpk_AAAA", "no base64!", "whsec_" + "A" * 400])
def test_keys_of_a_wrong_form_are_refused(key):
    with pytest.raises(BadKeyError):
        check_key(key, is_public=key.startswith("whpk_"))


def test_an_unset_shared_secret_is_never_met():
    assert same_secret("abc", "abc")
    assert not same_secret("", "") and not same_secret("abc", "") and not same_secret("ab", "abc")
    assert not same_secret("abcd", "abc") and not same_secret("äbc", "abc")
