"""An extension of Griffe: docstrings and signatures of estimators, which their declarations make.

Griffe, from which the pages of the API come, reads source files and does not see what a decorator
adds to a class.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import griffe


class Declared(griffe.Extension):
    """Takes docstring and signature of classes decorated with `declared` from the class itself."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        if not any(name.callable_path.endswith(".declared") for name in cls.decorators):
            return
        made = getattr(importlib.import_module(cls.module.path), cls.name)
        assert cls.docstring is not None
        cls.docstring.value = inspect.getdoc(made) or ""
        parameters = [
            griffe.Parameter(
                parameter.name,
                annotation=str(parameter.annotation),
                kind=griffe.ParameterKind(parameter.kind.description),
                default=repr(parameter.default),
            )
            for parameter in inspect.signature(made).parameters.values()
        ]
        first = griffe.Function("__init__", parameters=griffe.Parameters(*parameters))
        cls.set_member("__init__", first)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        if any(name.callable_path.endswith(".takes") for name in func.decorators):
            made = getattr(importlib.import_module(func.module.path), func.name)
            assert func.docstring is not None
            func.docstring.value = inspect.getdoc(made) or ""
