"""Smaller models: integers for reals, weights left out, shared or factored, and a small model taught by a large one."""
