"""What comes in from channels, from the webhook to the message: who may write, commands, albums, presses of buttons."""
