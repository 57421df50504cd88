"""Encryption and identification for push services, by the examples of RFC 8291 and RFC 8292."""

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.push import encryption, vapid
from tests.fakes.push_service import PushBrowser, bytes_of

# RFC 8291, appendix A.
_PLAIN = b"When I grow up, I want to be a watermelon"
_SENDER = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
_RECEIVER = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
_AUTH, _SALT = "BTBZMqHH6r4Tts7J_aSIgg", "DGv6ra1nlYgDCS1FRnbzlw"
_BODY = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95b"
    "Qpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)
# RFC 8292, section 2.4.
_TOKEN = (
    "eyJ0eXAiOiJKV1QiLCJhbGciOiJFUzI1NiJ9.eyJhdWQiOiJodHRwczovL3B1c2guZXhhbXBsZS5uZXQiLCJleHAiOjE0NTM1MjM3NjgsInN1YiI6Im1ha"
    "Wx0bzpwdXNoQGV4YW1wbGUuY29tIn0.i3CYb7t4xfxCDquptFOepC9GAu_HLGkMlMuCGSK2rpiUfnK9ojFwDXb1JrErtmysazNjjvW2L9OkSSHzvoD1oA"
)
_TOKEN_KEY = "BA1Hxzyi1RUM1b5wjxsn7nGxAszw2u61m164i3MrAIxHF6YK5h4SDYic-dRuU_RCPCfA5aq9ojSwk5Y2EmClBPs"


def test_a_message_is_encrypted_as_in_the_example_of_the_rfc() -> None:
    own_key = ec.derive_private_key(int.from_bytes(bytes_of(_SENDER)), ec.SECP256R1())
    body = encryption.encrypt(_PLAIN, bytes_of(_RECEIVER), bytes_of(_AUTH), own_key=own_key, salt=bytes_of(_SALT))
    assert body == bytes_of(_BODY)


@given(st.binary(max_size=encryption.MOST_BYTES))
def test_a_browser_reads_what_was_encrypted_for_it(message: bytes) -> None:
    browser = PushBrowser("any")
    body = encryption.encrypt(message, browser.point, browser.auth)
    assert browser.decrypt(body) == message and len(body) <= 4_096


@pytest.mark.parametrize("raw", [b"", b"\x04" + bytes(64), b"\x04" * 65, bytes(65)])
def test_what_is_no_point_of_the_curve_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="not a point"):
        encryption.read_public_key(raw)


def test_the_token_of_the_example_is_read_and_ours_has_its_form() -> None:
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), bytes_of(_TOKEN_KEY))
    options = {"verify_exp": False}
    example = jwt.decode(_TOKEN, key, algorithms=["ES256"], audience="https://push.example.net", options=options)
    assert example["sub"] == "mailto:push@example.com"
    header = vapid.authorization("https://push.example.net/p/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV")
    token, key_text = header.removeprefix("vapid t=").split(", k=")
    own = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), bytes_of(key_text))
    claims = jwt.decode(token, own, algorithms=["ES256"], audience="https://push.example.net")
    assert jwt.get_unverified_header(token) == jwt.get_unverified_header(_TOKEN)
    assert set(claims) <= set(example) and key_text == vapid.public_key()


def test_the_key_of_an_installation_stays() -> None:
    vapid._key.cache_clear()
    first = vapid.public_key()
    vapid._key.cache_clear()
    assert vapid.public_key() == first


def test_a_message_that_push_services_refuse_is_not_encrypted() -> None:
    browser = PushBrowser("any")
    with pytest.raises(ValueError, match="at most"):
        encryption.encrypt(b"x" * (encryption.MOST_BYTES + 1), browser.point, browser.auth)
