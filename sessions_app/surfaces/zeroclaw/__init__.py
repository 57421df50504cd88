"""The interface of ZeroClaw's gateway, for its clients: webhook, chat, sessions. `docs/zeroclaw.md` lists the calls."""
