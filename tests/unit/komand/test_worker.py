"""The command of a worker: what it changes in Celery."""

from types import SimpleNamespace
from typing import Any

from celery.concurrency.asynpool import AsynPool
from kombu.asynchronous import Hub

from komand import worker


def test_a_pool_that_connects_again_skips_a_child_that_has_just_ended():
    worker.skip_ended_children()
    pool: Any = AsynPool
    ended, hub = SimpleNamespace(_sentinel_poll=None), Hub()
    try:
        pool._track_child_process(SimpleNamespace(_event_process_exit=print), ended, hub)
        assert not hub.readers
    finally:
        hub.close()
