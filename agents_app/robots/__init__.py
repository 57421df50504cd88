"""Messages and results for code that composes agents: typed values with a JSON form, without ORM and settings."""
