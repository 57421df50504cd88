"""The WhatsApp channel, by the Cloud API of Meta."""
