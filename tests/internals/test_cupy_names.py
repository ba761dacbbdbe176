"""What kernels ask of an array module must be there in CuPy, under the same name and with the same parameters.

CuPy imports without a GPU but computes nothing, so the kernels run on NumPy through a module that notes every call,
and each call is held against the signature of CuPy's function of that name.
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from op_examples import GROUPS, Group

from internals.ops import TABLE


class Noted:
    """NumPy, noting what is called, and how."""

    def __init__(
        self, calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]], module: ModuleType = np, prefix: str = ""
    ) -> None:
        self._calls, self._module, self._prefix = calls, module, prefix

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._module, name)
        if isinstance(function, ModuleType):  # numpy.linalg
            return Noted(self._calls, function, f"{name}.")

        def call(*args: Any, **kwargs: Any) -> Any:
            self._calls.append((self._prefix + name, args, kwargs))
            return function(*args, **kwargs)

        if isinstance(function, np.ufunc):
            call.at = function.at  # type: ignore[attr-defined]  # as ufuncs have it
        return call


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_cupy_has_what_the_kernels_call(group: Group) -> None:
    cupy = pytest.importorskip("cupy")
    op = TABLE[group.case.op]
    if op.name == "transfer":
        pytest.skip("moves arrays between devices; it computes nothing")
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
    for example in group.examples:
        attrs = dict(op.attrs) | example.attrs
        with np.errstate(all="ignore"):
            op.kernel(Noted(calls), *example.inputs(), **attrs)
    for name, args, kwargs in calls:
        *modules, last = name.split(".")
        theirs = getattr(getattr(cupy, modules[0]) if modules else cupy, last, None)
        assert theirs is not None, f"{op.name}: CuPy has no {name}"
        if isinstance(theirs, cupy.ufunc):
            assert len(args) == theirs.nin, f"{op.name}: cupy.{name} takes {theirs.nin} arrays"
            assert set(kwargs) <= {"dtype", "out"}, f"{op.name}: cupy.{name} does not take {set(kwargs)}"
            assert callable(theirs.at)
        elif not isinstance(theirs, type):
            inspect.signature(theirs).bind(*args, **kwargs)
