"""The Threads API under /v1 for clients of Knowledge Stack: threads, messages, resumable event streams."""
