"""Files that come with messages: fetched in a worker, kept in the data folder, told to the model as text."""
