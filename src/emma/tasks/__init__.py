"""What a task is: names, axes, kinds of label, and the pinned declaration of each task."""

from emma.tasks.names import Name, OODAxis, Split, Strict, TaskID
from emma.tasks.spec import Anchors, ReadoutSpec, SecondaryAxis, TaskSpec, target_of
from emma.tasks.targets import TARGETS, Target

__all__ = [
    "TARGETS",
    "Anchors",
    "Name",
    "OODAxis",
    "ReadoutSpec",
    "SecondaryAxis",
    "Split",
    "Strict",
    "Target",
    "TaskID",
    "TaskSpec",
    "target_of",
]
