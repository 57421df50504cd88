"""What is sent to workers may be lost; nothing but a log line comes of it."""

import logging

from tools_app.executions import bell


def test_a_broker_that_is_down_does_not_fail_who_wants_a_tool_stopped(monkeypatch, caplog):
    def fail(*args, **kwargs):
        raise ConnectionError("broker is away")

    monkeypatch.setattr(bell.current_app.control, "revoke", fail)
    with caplog.at_level(logging.WARNING):
        bell._revoke(["some-id"])
    assert "broker is away" in caplog.text
