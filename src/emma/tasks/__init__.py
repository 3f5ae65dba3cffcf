"""What a task is: names, axes, and the pinned declaration of each task."""

from emma.tasks.spec import Anchors, Name, OODAxis, ReadoutSpec, Split, Strict, TaskID, TaskSpec

__all__ = ["Anchors", "Name", "OODAxis", "ReadoutSpec", "Split", "Strict", "TaskID", "TaskSpec"]
