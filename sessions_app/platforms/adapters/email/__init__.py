"""The e-mail channel: IMAP in, SMTP out."""
