"""Which facts the audit log gets an entry of."""

import pytest

from audit_app.event_types import EventType


@pytest.mark.parametrize(
    ("event_type", "payload", "action"),
    [
        (EventType("a.done", audit="Done"), {}, "Done"),
        (EventType("a.done"), {"kind": "x"}, None),
        (EventType("a.told", audit="XFound", audited_kind="x"), {"kind": "x"}, "XFound"),
        (EventType("a.told", audit="XFound", audited_kind="x"), {"kind": "y"}, None),
        (EventType("a.told", audit="XFound", audited_kind="x"), {}, None),
    ],
)
def test_an_audited_type_may_be_so_for_one_kind_alone(event_type, payload, action):
    assert event_type.audit_action(payload) == action
