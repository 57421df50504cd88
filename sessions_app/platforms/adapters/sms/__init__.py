"""The SMS channel, by Twilio's REST API."""
