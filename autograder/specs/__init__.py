"""One file per lab. What an answer is worth is decided here; nothing in this package is ever mounted in a sandbox."""
