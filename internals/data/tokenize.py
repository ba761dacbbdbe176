"""Text as numbers: tokenizers, and windows of tokens to learn a language model from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from internals.data.dataset import Dataset

UNKNOWN = "\N{REPLACEMENT CHARACTER}"


class Tokenizer:
    """Pieces of text and their numbers; subclasses say how text is cut into pieces, and put together.

    Attributes
    ----------
    pieces : tuple of str
        By number. Number 0 stands for what is not there.
    """

    def __init__(self, pieces: Iterable[str]) -> None:
        self.pieces = (UNKNOWN, *(piece for piece in pieces if piece != UNKNOWN))
        self.numbers = {piece: number for number, piece in enumerate(self.pieces)}

    def __len__(self) -> int:
        return len(self.pieces)

    def cut(self, text: str) -> Sequence[str]:
        """The pieces of a text, in order, known or not."""
        raise NotImplementedError(f"{type(self).__name__} has no cut; write one.")

    def encode(self, text: str) -> np.ndarray:
        """The numbers of a text's pieces: int64, shape (pieces,)."""
        if not isinstance(text, str):
            raise TypeError(f"encode: expected a string, got {type(text).__name__}.")
        return np.array([self.numbers.get(piece, 0) for piece in self.cut(text)], np.int64)

    def decode(self, tokens: Any) -> str:
        """The text of some numbers.

        Raises
        ------
        IndexError
            A number that no piece has.
        """
        numbers = np.asarray(tokens).ravel().tolist()
        outside = [number for number in numbers if not 0 <= number < len(self)]
        if outside:
            raise IndexError(f"decode: token {outside[0]}, but there are tokens 0 to {len(self) - 1}.")
        return "".join(self.pieces[number] for number in numbers)


class CharTokenizer(Tokenizer):
    """Each character is a token; those of `text` are known."""

    def __init__(self, text: str) -> None:
        super().__init__(sorted(set(text)))

    def cut(self, text: str) -> Sequence[str]:
        return text


class WordTokenizer(Tokenizer):
    """Words, numbers, punctuation marks and stretches of white space are tokens.

    Parameters
    ----------
    text : str
        Its most frequent pieces are known; of equal ones, those that come first.
    size : int, optional
        How many tokens there are, 0 included; as many as `text` has unless given.
    """

    _PIECE = re.compile(r"\w+|\s+|[^\w\s]")

    def __init__(self, text: str, size: int | None = None) -> None:
        counts = Counter(self._PIECE.findall(text))
        super().__init__(
            piece for piece, _ in counts.most_common(None if size is None else _checked("size", size, 2) - 1)
        )

    def cut(self, text: str) -> Sequence[str]:
        return self._PIECE.findall(text)


class PairTokenizer(Tokenizer):
    """Byte pair encoding, on characters: the most frequent pair of neighbours becomes one token, over and over.

    Parameters
    ----------
    text : str
        Pairs are counted here, within words and the blank before each.
    size : int
        How many tokens there are to be. Fewer, if no pair occurs twice any more; more, if `text` has more characters.

    Sennrich, Haddow & Birch (2016), Neural machine translation of rare words with subword units, Algorithm 1.
    """

    _WORD = re.compile(r" ?\w+| ?[^\w\s]+|\s")

    def __init__(self, text: str, size: int) -> None:
        words = Counter(self._WORD.findall(text))
        cut = {word: list(word) for word in words}
        pieces = sorted(set(text))
        self.merges: dict[tuple[str, str], int] = {}
        while len(pieces) + 1 < _checked("size", size, 2):
            pairs: Counter[tuple[str, str]] = Counter()
            for word, parts in cut.items():
                for pair in pairwise(parts):
                    pairs[pair] += words[word]
            best, count = min(pairs.items(), key=lambda entry: (-entry[1], entry[0]), default=(("", ""), 0))
            if count < 2:
                break
            self.merges[best] = len(self.merges)
            if "".join(best) not in pieces:
                pieces.append("".join(best))
            for word, parts in cut.items():
                if best[0] in parts:
                    cut[word] = _merged(parts, best)
        super().__init__(pieces)
        self._cut: dict[str, list[str]] = {}

    def cut(self, text: str) -> Sequence[str]:
        pieces: list[str] = []
        end = 0
        for match in self._WORD.finditer(text):
            pieces += text[end : match.start()]
            pieces += self._word(match.group())
            end = match.end()
        return [*pieces, *text[end:]]

    def _word(self, word: str) -> list[str]:
        if word not in self._cut:
            parts = list(word)
            while len(parts) > 1:
                known = [pair for pair in pairwise(parts) if pair in self.merges]
                if not known:
                    break
                parts = _merged(parts, min(known, key=self.merges.__getitem__))
            self._cut[word] = parts
        return self._cut[word]


def _merged(parts: list[str], pair: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    i = 0
    while i < len(parts):
        if i + 1 < len(parts) and (parts[i], parts[i + 1]) == pair:
            merged.append(parts[i] + parts[i + 1])
            i += 2
        else:
            merged.append(parts[i])
            i += 1
    return merged


class Windows(Dataset):
    """Stretches of tokens, and the same moved on by one: what a language model reads, and what it should say.

    Parameters
    ----------
    tokens : int array, shape (n,)
    length : int
        Of each stretch; example i is the pair ``tokens[i * stride:][:length]``, ``tokens[i * stride + 1:][:length]``.
    stride : int, optional
        From the start of one stretch to that of the next; `length` unless given, so that they do not overlap.
    """

    def __init__(self, tokens: Any, length: int, stride: int | None = None) -> None:
        self.tokens = np.asarray(tokens)
        self.length, self.stride = (
            _checked("length", length, 1),
            _checked("stride", length if stride is None else stride, 1),
        )
        if self.tokens.ndim != 1 or self.tokens.dtype.kind not in "iu":
            raise TypeError(
                f"Windows: tokens must be integers along one axis, got {self.tokens.dtype}{list(self.tokens.shape)}."
            )
        if len(self.tokens) <= length:
            raise ValueError(f"Windows: {len(self.tokens)} tokens are too few for a stretch of {length} and the next.")

    def __len__(self) -> int:
        return (len(self.tokens) - self.length - 1) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return tuple(field[0] for field in self.fetch([index]))

    def fetch(self, indices: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.asarray(indices, np.intp)
        if numbers.size and not (numbers.min() >= -len(self) and numbers.max() < len(self)):
            raise IndexError(f"Windows: there are {len(self)} stretches.")
        starts = numbers % len(self) * self.stride
        places = starts[:, None] + np.arange(self.length)
        return self.tokens[places], self.tokens[places + 1]


def _checked(name: str, size: int, least: int) -> int:
    if not isinstance(size, int | np.integer) or size < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {size!r}.")
    return int(size)
