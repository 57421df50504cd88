"""Chats that leave the installation: as a file, and by a link for people without a login."""
