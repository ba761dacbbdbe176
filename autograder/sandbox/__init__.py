"""Where a learner's code runs: without network, without files but its packages, with limits."""

from autograder.sandbox.box import START_LIMIT, Box, SandboxUnavailable, WorkerDied
from autograder.sandbox.canary import best, describe, kinds
from autograder.sandbox.pool import Pool, open

__all__ = ["START_LIMIT", "Box", "Pool", "SandboxUnavailable", "WorkerDied", "best", "describe", "kinds", "open"]
