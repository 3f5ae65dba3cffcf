"""The metrics of the benchmark by name: every ``Metric`` subclass that a module of this package names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from common.tokenizers import tokenizer_of

if TYPE_CHECKING:
    from emma.metrics.base import Metric

#: The names of the metric reference, in its order; METRICS gives them first.
_REFERENCE = (
    "MeanAngularError",
    "BalancedAccuracy",
    "AUC",
    "Top1Accuracy",
    "EER",
    "PlainAccuracy",
    "TopKAccuracy",
    "NMSE",
    "SISDR",
    "AUROC",
    "Bleu",
    "Meteor",
    "CIDER",
    "ExactMatch",
    "F1",
)

_CLASSES: dict[str, type[Metric]] = {}


def register(cls: type[Metric]) -> None:
    """Enter a class that has a name of its own; a class outside this package is no metric of the benchmark.

    Raises:
        TypeError: another class has the name, or the class leaves ``direction`` or ``takes`` open.
    """
    if "name" not in cls.__dict__ or not cls.__module__.startswith(f"{__package__}."):
        return
    place = f"{cls.__module__}.{cls.__qualname__}"
    for attribute in ("direction", "takes"):
        if not getattr(cls, attribute, None):
            raise TypeError(f"{place}: {attribute}: expected a class attribute")
    other = _CLASSES.get(cls.name, cls)
    if (claimed := f"{other.__module__}.{other.__qualname__}") != place:
        raise TypeError(f"{place}: name: {cls.name} is the name of {claimed}, expected one of its own")
    _CLASSES[cls.name] = cls


class _Metrics(Mapping[str, "Metric"]):
    """Metrics by name, each made when first asked for, so that one whose data are absent fails at that point."""

    def __init__(self) -> None:
        self._made: dict[str, Metric] = {}

    def __getitem__(self, name: str) -> Metric:
        if name not in self._made:
            self._made[name] = _CLASSES[name]()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in _CLASSES

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in _REFERENCE if name in _CLASSES)
        yield from (name for name in _CLASSES if name not in _REFERENCE)

    def __len__(self) -> int:
        return len(_CLASSES)


METRICS: Mapping[str, Metric] = _Metrics()


def make_metric(name: str, *, k: int | None = None, tokenizer: str | None = None) -> Metric:
    """Return a metric with the parameters that a release pins; one that has no such parameter ignores it.

    Args:
        name: a name of METRICS.
        k: the k of ``TopKAccuracy``; 5 by default.
        tokenizer: the tokenizer of the caption metrics, a name of ``common.tokenizers.TOKENIZERS``;
            ``13a-lower`` by default.

    Raises:
        ValueError: no metric or no tokenizer has that name, or k is no whole number from 1 up.

    Example:
        >>> make_metric("TopKAccuracy", k=3)
        TopKAccuracy(3)
        >>> make_metric("AUC", k=3)
        AUC()
    """
    if name not in _CLASSES:
        raise ValueError(f"metric: {name!r} is not known, expected {', '.join(METRICS)}")
    if tokenizer is not None:
        tokenizer_of(tokenizer)
    make: Callable[..., Metric] = _CLASSES[name]
    pinned: dict[str, Any] = {"k": k, "tokenizer": tokenizer}
    chosen = {key: pinned[key] for key in _CLASSES[name].release_keys if pinned[key] is not None}
    return make(**chosen) if chosen else METRICS[name]
