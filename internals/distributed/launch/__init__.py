"""Start the processes of a job on this machine, watch them, stop them; or print the manifests that a cluster starts.

``python -m internals.distributed.launch -n 4 script.py`` is the command; `main` is the same as a function.
"""

from internals.distributed.launch.command import main

__all__ = ["main"]
