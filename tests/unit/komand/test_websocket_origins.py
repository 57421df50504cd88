import pytest

from komand.websocket_origins import is_allowed

HOSTS = ["komand.example.com", "127.0.0.1", "localhost"]


def allowed(origin: str, host: str, *, cookie: bool = True, origins: tuple[str, ...] = ()) -> bool:
    headers = (
        {b"host": host.encode()}
        | ({b"origin": origin.encode()} if origin else {})
        | ({b"cookie": b"a=1"} if cookie else {})
    )
    return is_allowed(headers, HOSTS, origins)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1:8000"),
        ("http://localhost:8000", "localhost:8000"),
        ("https://komand.example.com", "komand.example.com"),
        ("https://KOMAND.example.com", "komand.example.com"),
        ("https://komand.example.com:443", "komand.example.com"),
    ],
)
def test_the_page_s_own_host_is_let_in(origin: str, host: str) -> None:
    assert allowed(origin, host)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("https://evil.example", "komand.example.com"),
        ("https://evil-komand.example.com", "komand.example.com"),
        ("https://sub.komand.example.com", "komand.example.com"),
        ("http://127.0.0.1:3000", "127.0.0.1:8000"),  # another program of this machine
        ("http://localhost:8000", "127.0.0.1:8000"),
        ("null", "127.0.0.1:8000"),
        ("file://", "127.0.0.1:8000"),
        ("http://127.0.0.1:8000x", "127.0.0.1:8000"),
        ("http://rebound.example:8000", "rebound.example:8000"),  # a foreign name that resolves to us
    ],
)
def test_other_pages_are_not(origin: str, host: str) -> None:
    assert not allowed(origin, host)


def test_a_program_without_origin_is_let_in_unless_it_carries_a_cookie() -> None:
    assert allowed("", "127.0.0.1:8000", cookie=False)
    assert not allowed("", "127.0.0.1:8000", cookie=True)


def test_a_listed_origin_is_let_in() -> None:
    assert allowed("https://app.example.org", "komand.example.com", origins=("https://app.example.org",))
