"""The channels: adapters that speak a platform, and the pure parts they share. No models, no database."""
