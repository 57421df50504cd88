import pytest

from komand.asgi import without_trailing_slash


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", "/"),
        ("/api/agents/", "/api/agents"),
        ("/api/agents", "/api/agents"),
        ("/api/agents//", "/api/agents/"),
        ("/admin/", "/admin/"),
        ("/admin/audit_app/auditentry/", "/admin/audit_app/auditentry/"),
        ("/static/x/", "/static/x/"),
        ("/administrators/", "/administrators"),
    ],
)
def test_one_trailing_slash_is_taken_off_outside_the_admin(path: str, expected: str) -> None:
    assert without_trailing_slash(path) == expected
