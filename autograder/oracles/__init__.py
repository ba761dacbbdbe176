"""Real frameworks, each in a process of its own, that say what the right answer is."""

from autograder.oracles.client import Answer, Oracle, OracleError, launch, running, stop
from autograder.oracles.runtime import directory

__all__ = ["Answer", "Oracle", "OracleError", "directory", "launch", "running", "stop"]
