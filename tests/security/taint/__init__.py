"""An evaluation of the policy for data that leaves: a model that obeys every text, attacks, and ordinary tasks."""

FIGURES = "KOMAND_TAINT_FIGURES"  # environment variable: folder for the figures of the attacks
