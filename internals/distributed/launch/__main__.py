"""``python -m internals.distributed.launch``."""

import sys

from internals.distributed.launch import main

sys.exit(main())
