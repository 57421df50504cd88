"""Indexes that keep lists and retention at a steady cost, however many rows there are."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("audit_app", "0001_initial")]

    operations = [
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(
                condition=models.Q(("request_id", ""), _negated=True), fields=["request_id", "id"], name="audit_request"
            ),
        ),
    ]
