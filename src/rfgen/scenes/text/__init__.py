"""Tasks whose answers are words: one law of scenes, and for each task a module that registers its class."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
