# SPDX-License-Identifier: Apache-2.0
"""The loader of goals."""

from collections.abc import Mapping
from typing import Any

from tonnage import installation
from tonnage.capacity import errors
from tonnage.extensions.moves.goals import arguments
from tonnage.extensions.moves.goals.goal import Goal

NAMESPACE = "tonnage.moves.goals"


def names() -> list[str]:
    """Return the names of the goals that are installed, in the order of the alphabet."""
    return list(dict.fromkeys(point.name for point in installation.entry_points(NAMESPACE)))


def find(name: str) -> type[Goal]:
    """Return the class of a goal. Raises :class:`~tonnage.capacity.errors.InvalidInput` for an unknown one."""
    plugins = installation.load_plugins(NAMESPACE, name)
    if not plugins:
        raise errors.InvalidInput(f"goal is {name!r}: expected {', '.join(names())}")
    goal_class: type[Goal] = plugins[0]
    return goal_class


def load(name: str, values: Mapping[str, Any]) -> Goal:
    """Return the goal with this name.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for an unknown goal, and for arguments that it does not take.
    """
    goal_class = find(name)
    try:
        return goal_class(arguments.read_all(goal_class.arguments, values))
    except errors.InvalidInput as error:
        raise errors.InvalidInput(f"goal {name}: {error.message}") from None
