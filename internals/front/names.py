"""Things that can be asked for by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any


def choose(kind: str, wanted: Any, known: Mapping[str, Any]) -> Any:
    """What goes by a name, or the thing itself where that was given.

    Raises
    ------
    ValueError
        Nothing goes by that name; says which name is close.
    TypeError
        Neither a name nor something that can be called.
    """
    if not isinstance(wanted, str):
        if callable(wanted):
            return wanted
        raise TypeError(f"{kind}: expected a name or a function, got {type(wanted).__name__}.")
    if wanted in known:
        return known[wanted]
    close = difflib.get_close_matches(wanted.lower(), known, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"There are {', '.join(sorted(known))}."
    raise ValueError(f"{kind}: there is none called {wanted!r}. {hint}")
