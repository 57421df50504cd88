"""The web chat for the visitors of other sites."""
