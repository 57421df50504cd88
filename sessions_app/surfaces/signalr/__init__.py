"""The SignalR hub: answers token by token for clients of `@microsoft/signalr`, over all of its transports."""
