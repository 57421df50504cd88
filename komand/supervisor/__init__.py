"""`manage.py up`, `status` and `restart`: the supervisor of an installation's processes. Runs without Django."""
