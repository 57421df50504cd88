"""What agents keep: files of a session, memories, a folder of their own."""
