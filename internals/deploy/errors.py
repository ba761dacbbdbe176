"""What can be wrong with a model that comes from a file, or with what it is given."""

from __future__ import annotations


class FormatError(ValueError):
    """A model file is not what it should be, or holds what this program does not know; names the file and the part."""


class SignatureError(ValueError):
    """A call does not fit a signature; names the signature, the input, what came and what was expected."""
