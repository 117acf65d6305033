"""All recipes: each module here that has a list `RECIPES`."""

from __future__ import annotations

import importlib
import pkgutil

from corpus.make.recipe import Recipe


def all_recipes() -> list[Recipe]:
    """Return every recipe, by the names of the modules and in their order."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return [recipe for module in modules for recipe in getattr(module, "RECIPES", ())]
