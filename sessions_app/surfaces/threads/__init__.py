"""The Threads API under /v1: threads, messages, event streams that can be taken up, for clients of Knowledge Stack."""
