"""One file per lab. A driver turns plain data into a call of the learner's function, in the sandbox; no answers."""
