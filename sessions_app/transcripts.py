"""Implements the port by which runs read and store conversations."""


class StoredConversations:
    pass
