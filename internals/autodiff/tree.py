"""Nested arguments and results: tuples, lists and dicts of tensors, taken apart and put together again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def leaves(tree: Any) -> list[Any]:
    """What stands at the ends of a nested structure, from left to right; dicts in the order of their keys."""
    if isinstance(tree, Mapping):
        return [leaf for part in tree.values() for leaf in leaves(part)]
    if isinstance(tree, tuple | list):
        return [leaf for part in tree for leaf in leaves(part)]
    return [tree]


def rebuilt(tree: Any, new: list[Any]) -> Any:
    """The structure of `tree` with other leaves, given in the order of `leaves`."""
    waiting = iter(new)
    return mapped(lambda _: next(waiting), tree)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The structure of `tree` with each leaf replaced by the function of it."""
    if isinstance(tree, Mapping):
        parts = {key: mapped(function, part) for key, part in tree.items()}
        return parts if type(tree) is dict else type(tree)(parts)  # type: ignore[call-arg]  # as OrderedDict takes them
    if isinstance(tree, tuple | list):
        parts_in_order = [mapped(function, part) for part in tree]
        return type(tree)(*parts_in_order) if hasattr(tree, "_fields") else type(tree)(parts_in_order)
    return function(tree)


def spread(prefix: Any, tree: Any, name: str) -> list[Any]:
    """`prefix`, which may stop short of the leaves of `tree`, repeated for each leaf below where it stops.

    Raises
    ------
    ValueError
        The two differ in structure; the message calls `prefix` by `name`.
    """
    if not isinstance(prefix, tuple | list | Mapping):
        return [prefix] * len(leaves(tree))
    if isinstance(prefix, Mapping) and isinstance(tree, Mapping) and prefix.keys() == tree.keys():
        return [leaf for key in tree for leaf in spread(prefix[key], tree[key], name)]
    if isinstance(prefix, tuple | list) and isinstance(tree, tuple | list) and len(prefix) == len(tree):
        return [leaf for mine, part in zip(prefix, tree, strict=True) for leaf in spread(mine, part, name)]
    raise ValueError(f"{name} {prefix!r} does not have the structure of what it is for: {shape_of_tree(tree)}.")


def shape_of_tree(tree: Any) -> str:
    """The structure in words: ``(*, [*, *])``."""
    if isinstance(tree, Mapping):
        return "{" + ", ".join(f"{key!r}: {shape_of_tree(part)}" for key, part in tree.items()) + "}"
    if isinstance(tree, tuple):
        return "(" + ", ".join(map(shape_of_tree, tree)) + ("," if len(tree) == 1 else "") + ")"
    return "[" + ", ".join(map(shape_of_tree, tree)) + "]" if isinstance(tree, list) else "*"
