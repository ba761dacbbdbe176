"""Modules that are mounted in the sandbox beside the worker, where each is found by its own name."""
