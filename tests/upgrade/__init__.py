"""An upgrade of a working installation and its way back, under load: `python -m tests.upgrade`."""
