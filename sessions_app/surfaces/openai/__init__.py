"""The OpenAI protocol: any client of Chat Completions or Responses can talk to an agent; its name is the model's."""
