"""Files of messages: stored in the data folder, described as text for the model. A worker fetches those of channels."""
