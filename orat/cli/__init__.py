"""What `orat` can be told to do: one command a file, `add` for its flags and `run` for what it does."""
