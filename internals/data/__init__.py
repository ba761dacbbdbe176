"""Data: datasets, readers and their stages, text, and real data that ships in packages."""

from internals.data.bundled import breast_cancer, diabetes, digits, iris, photographs, text, wine
from internals.data.collate import collate, pad, pad_batch
from internals.data.dataset import ArrayDataset, Dataset, IterableDataset, Subset, split
from internals.data.reader import Reader, read
from internals.data.tokenize import CharTokenizer, PairTokenizer, Tokenizer, Windows, WordTokenizer

__all__ = [
    "ArrayDataset",
    "CharTokenizer",
    "Dataset",
    "IterableDataset",
    "PairTokenizer",
    "Reader",
    "Subset",
    "Tokenizer",
    "Windows",
    "WordTokenizer",
    "breast_cancer",
    "collate",
    "diabetes",
    "digits",
    "iris",
    "pad",
    "pad_batch",
    "photographs",
    "read",
    "split",
    "text",
    "wine",
]
