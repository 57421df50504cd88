"""Messages and results for code that puts agents together: typed values with a JSON form. Pure: no ORM, no settings."""
