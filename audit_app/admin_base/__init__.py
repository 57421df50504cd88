"""Base classes and helpers of all admin pages. `html` and `links` load without the admin."""
