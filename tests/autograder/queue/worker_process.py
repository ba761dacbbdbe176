"""``python worker_process.py WHERE SLOTS``: a worker, to be killed by the tests, whose graders do as they are told."""

from __future__ import annotations

import sys

from autograder.queue.executors.pool import Pool
from autograder.queue.worker import Worker

Worker(sys.argv[1], Pool(int(sys.argv[2]), "queue_work"), lease=5.0, poll=0.02).run()
