"""Hosts in ASCII, and with the letters that they are written in."""

import pytest

from audit_app.kernel.host_names import in_ascii, with_letters


@pytest.mark.parametrize(
    ("host", "ascii_host"),
    [
        ("example.com", "example.com"),
        ("аpple.com", "xn--pple-43d.com"),
        ("БАНК.example", "xn--80ab2al.example"),
        ("straße.example", "xn--strae-oqa.example"),
        ("example。com", "example.com"),
        ("ａpple.com", "apple.com"),
        ("ä" * 70 + ".example", "xn--" + "ä".join([""] * 71).encode("punycode").decode() + ".example"),
        ("", ""),
    ],
)
def test_a_host_is_shown_as_a_browser_looks_it_up(host: str, ascii_host: str) -> None:
    assert in_ascii(host) == ascii_host


@pytest.mark.parametrize("authority", ["example.com", "xn--.example", "xn--pple-43d.com:8443", "xn--pple-43d.com"])
def test_the_letters_stand_beside_the_host(authority: str) -> None:
    letters = {"xn--pple-43d.com:8443": " (аpple.com:8443)", "xn--pple-43d.com": " (аpple.com)"}
    assert with_letters(authority) == authority + letters.get(authority, "")
