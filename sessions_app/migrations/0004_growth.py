"""Indexes that keep lists and retention at a steady cost, however many rows there are."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0003_approval_prompts")]

    operations = [
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("status", "failed"), ("status", "unknown"), ("status", "expired"), _connector="OR"),
                fields=["status", "id"],
                name="delivery_trouble",
            ),
        ),
        migrations.AddIndex(
            model_name="turn",
            index=models.Index(
                condition=models.Q(("idempotency_key__isnull", False)), fields=["id"], name="turn_keyed"
            ),
        ),
        migrations.AddIndex(
            model_name="refreshtoken",
            index=models.Index(fields=["expires_at"], name="refresh_expired"),
        ),
    ]
