"""The SignalR hub: agents' answers token by token for clients of `@microsoft/signalr`, over any of its transports."""
