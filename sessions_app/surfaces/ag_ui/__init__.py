"""The AG-UI protocol 1.0."""
