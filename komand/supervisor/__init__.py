"""`manage.py up`, `status`, `restart`: starts, watches and ends the processes of one installation, without Django."""
