"""How one watcher sees a session: kept facts and live text put together without a gap and without a double."""
