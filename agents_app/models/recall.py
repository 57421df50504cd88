"""The table of memories that a run's prompt contains."""

from django.db import models


class RunRecall(models.Model):
    """The memories in the requests of a run, as chosen at its first claim: all its steps get the same."""

    run = models.OneToOneField("agents_app.Run", on_delete=models.CASCADE, primary_key=True, related_name="recall")
    memories = models.JSONField(help_text="[{key, text, source, day}] (prompt.recalled_memories.RecalledMemory).")

    class Meta:
        db_table = "komand_run_recall"

    def __str__(self) -> str:
        return f"memories of run {self.run_id}"
