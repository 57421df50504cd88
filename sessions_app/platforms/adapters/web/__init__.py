"""The web chat: visitors of other sites, who write to `/webchat/<account>/…`."""
