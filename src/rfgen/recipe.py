"""The recipe of a release: every number of its scenes, checked once, frozen afterwards."""

from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, ValidationError, model_validator
from pydantic_core import CoreSchema, core_schema

from common.errors import advice, unknown
from rfgen.scenes import TASKS
from rfgen.scenes.base import SceneRecipe, SceneTask, Split


class _ByName:
    """Reads each entry of a mapping by the class that is registered under its name; the order stays."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        fields = {
            name: core_schema.typed_dict_field(handler.generate_schema(task), required=False)
            for name, task in TASKS.items()
        }
        known = core_schema.typed_dict_schema(fields, extra_behavior="forbid")
        return core_schema.no_info_wrap_validator_function(_in_order, known)


def _in_order(value: Any, read: core_schema.ValidatorFunctionWrapHandler) -> dict[str, SceneTask]:
    if others := [name for name in value if name not in TASKS] if isinstance(value, dict) else []:
        raise ValueError(unknown(str(others[0]), sorted(TASKS)))
    tasks: dict[str, SceneTask] = read(value)
    return {name: tasks[name] for name in value}


class Recipe(SceneRecipe):
    """Everything that decides a release's scenes, apart from its seed: the `rfgen:` mapping of a release's YAML.

    Build it with `Recipe.from_mapping`, whose errors are one line that names the key and what was expected.
    """

    tasks: Annotated[dict[str, SceneTask], _ByName()]

    @classmethod
    def from_mapping(cls, mapping: Any, where: str = "rfgen") -> "Recipe":
        """The recipe in `mapping`; ValueError of one line `where.key: expectation` when it is not one."""
        try:
            return cls.model_validate(mapping)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join([where, *map(str, first["loc"])])
            raise ValueError(f"{key}: {first['msg'].removeprefix('Value error, ')}") from None

    @model_validator(mode="after")
    def _check(self) -> "Recipe":
        if not self.tasks:
            raise ValueError("tasks: expected at least one")
        for name, task in self.tasks.items():
            task.check(self, name)
        used = {environment for values in self._values() for environment in values["environment"]}
        for environment in self.environments:
            if environment not in used:
                raise ValueError(
                    f"environments.{environment}: environment without scenes, expected a task that uses it"
                )
        if self.pretrain.band not in self.bands_hz:
            told = advice(self.pretrain.band, self.bands_hz)
            raise ValueError(f"pretrain.band: {self.pretrain.band!r} has no frequency in bands_hz, {told}")
        self._check_pretrain()
        return self

    def _check_pretrain(self) -> None:
        """The pool meets no held-out value."""
        ceiling = max(task.snr_limits_db[1] for task in self.tasks.values())
        if self.pretrain.snr_db[0] < ceiling:
            raise ValueError(f"pretrain.snr_db: expected SNRs from {ceiling} dB on, above those of every task")
        pool = self.pretrain
        bands, units = ({x for values in self._values() for x in values[axis]} for axis in ("frequency_band", "device"))
        met: list[tuple[str, str, set[str]]] = [
            ("name", pool.name, set(self.environments)),
            ("band", pool.band, bands),
            *(("units", unit, units) for unit in pool.units),
        ]
        for key, value, taken in met:
            if value in taken:
                raise ValueError(f"pretrain.{key}: {value!r} is a held-out value, expected one that no task scores")

    def _values(self) -> list[dict[str, tuple[str, ...]]]:
        return [task.values_of(self) for task in self.tasks.values()]

    def tasks_in(self, split: Split) -> tuple[str, ...]:
        """Tasks that have scenes in a split, in the recipe's order."""
        return tuple(name for name, task in self.tasks.items() if task.counts.get(split, 0))

    def values_of(self, task: str) -> dict[str, tuple[str, ...]]:
        """Values that a task's TRAIN, DEV and HOLDOUT scenes can have, by the scene column of each axis."""
        return self.tasks[task].values_of(self)
