"""The page of events is what the declarations say."""

from io import StringIO
from pathlib import Path

from django.conf import settings
from django.core.management import call_command

from audit_app.event_types import event_types
from audit_app.management.commands.describe_events import page


def test_the_committed_page_is_up_to_date():
    committed = Path(settings.BASE_DIR, "docs", "events.md").read_text()
    assert committed == page(), "run: python manage.py describe_events > docs/events.md"


def test_every_type_has_one_row_and_no_cell_breaks_it():
    rows = [line for line in page().splitlines() if line.startswith("| `")]
    assert len(rows) == len(event_types.names())
    assert all(row.replace("\\|", "").count("|") == 5 for row in rows)


def test_the_command_prints_the_page_and_nothing_else():
    printed = StringIO()
    call_command("describe_events", stdout=printed)
    assert printed.getvalue() == page()
