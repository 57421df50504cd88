"""`manage.py up` and `status`: starts, watches and ends the processes of one installation. Never imports Django."""
