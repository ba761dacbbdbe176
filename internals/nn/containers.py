"""Modules made of modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from internals.nn.module import Module


class _Listed(Module):
    """Parts in order, named by their places."""

    parts: list[Module]

    def _take(self, parts: Iterable[Any]) -> None:
        self.parts = list(parts)
        for i, part in enumerate(self.parts):
            self._check(i, part)

    def _check(self, place: int, part: Any) -> None:
        if not isinstance(part, Module):
            raise TypeError(
                f"{type(self).__name__}: part {place} is a {type(part).__name__}; expected a Module. A function "
                "becomes one in a class with a forward."
            )

    def _attributes(self) -> Iterator[tuple[str, Any]]:
        return ((str(i), part) for i, part in enumerate(self.parts))

    def _shown_parts(self, parts: list[tuple[str, str]]) -> list[str]:
        return [text for _, text in parts]

    def append(self, part: Module) -> Self:
        """Add a part at the end."""
        self._check(len(self.parts), part)
        self.parts.append(part)
        return self

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.parts)

    def __getitem__(self, place: int | slice) -> Any:
        return type(self)(*self._made_of(self.parts[place])) if isinstance(place, slice) else self.parts[place]

    def _made_of(self, parts: list[Module]) -> tuple[Any, ...]:
        """The arguments that make one of `parts`."""
        return tuple(parts)

    def __bool__(self) -> bool:
        return True


class Sequential(_Listed):
    """Modules applied one after the other."""

    def __init__(self, *parts: Module) -> None:
        self._take(parts)

    def forward(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x


class ModuleList(_Listed):
    """A list of modules, for a forward of its owner's; has none itself."""

    def __init__(self, parts: Iterable[Module] = ()) -> None:
        self._take(parts)

    def _made_of(self, parts: list[Module]) -> tuple[Any, ...]:
        return (parts,)


class ModuleDict(Module):
    """Modules by name, for a forward of its owner's; has none itself."""

    def __init__(self, parts: Mapping[str, Module] | None = None) -> None:
        self.parts: dict[str, Module] = {}
        for name, part in (parts or {}).items():
            self[name] = part

    def __setitem__(self, name: str, part: Module) -> None:
        if not isinstance(name, str) or not name or "." in name:
            raise ValueError(f"ModuleDict: a name is a string without dots, got {name!r}.")
        if not isinstance(part, Module):
            raise TypeError(f"ModuleDict: {name} is a {type(part).__name__}; expected a Module.")
        self.parts[name] = part

    def __getitem__(self, name: str) -> Module:
        if name not in self.parts:
            raise KeyError(f"ModuleDict: there is no {name!r}; there are {', '.join(self.parts) or 'no modules'}.")
        return self.parts[name]

    def _attributes(self) -> Iterator[tuple[str, Any]]:
        return iter(self.parts.items())

    def __contains__(self, name: object) -> bool:
        return name in self.parts

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def items(self) -> Iterable[tuple[str, Module]]:
        return self.parts.items()

    def __bool__(self) -> bool:
        return True
