"""Inputs of a learner's own: drawn from a seed that is theirs, and the same whenever their work is graded again."""

from __future__ import annotations

import hashlib
import os
import unicodedata

KEY = "AUTOGRADER_VARIANT_KEY"
"""A word kept from learners, the same on every machine that grades: without it nobody knows a seed beforehand."""


def seed_of(lab: str, learner: str, key: str | None = None) -> int:
    """The seed of a learner's inputs in a lab; a whole number below 2**32.

    Parameters
    ----------
    lab, learner : str
        Names, however they are composed in Unicode.
    key : str, optional
        By default what the environment says.

    Raises
    ------
    ValueError
        A name is empty.
    """
    for what, name in (("lab", lab), ("learner", learner)):
        if not name:
            raise ValueError(f"seed_of: the name of the {what} is empty; a variant belongs to a lab and a learner.")
    secret = os.environ.get(KEY, "") if key is None else key
    # A keyed hash takes 64 bytes; a longer word is digested first.
    digest = hashlib.blake2b(
        "\0".join(unicodedata.normalize("NFC", name) for name in (lab, learner)).encode(errors="backslashreplace"),
        digest_size=4,
        key=hashlib.sha256(secret.encode(errors="backslashreplace")).digest(),
    )
    return int.from_bytes(digest.digest(), "big")
