"""What is in a lite file, and where its values lie: ``python -m internals.deploy.lite FILE [--batch N]``."""

from __future__ import annotations

import argparse
import sys

from internals.deploy.lite.runtime import Interpreter, LiteError
from internals.deploy.lite.show import arena_text, table


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m internals.deploy.lite", description="Show a lite model.")
    parser.add_argument("file")
    parser.add_argument("--batch", type=int, default=1)
    given = parser.parse_args(arguments)
    try:
        model = Interpreter(given.file, batch=given.batch)
    except (LiteError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(table(model))
    print()
    print(arena_text(model))
    return 0


if __name__ == "__main__":
    sys.exit(main())
