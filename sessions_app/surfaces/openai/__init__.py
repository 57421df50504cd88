"""The OpenAI protocol: agents as models of the Chat Completions and Responses APIs."""
