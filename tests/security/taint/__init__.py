"""An evaluation of the policy for data that leaves: a model that obeys every text, attacks, and ordinary tasks."""
