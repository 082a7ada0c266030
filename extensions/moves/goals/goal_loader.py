# SPDX-License-Identifier: Apache-2.0
"""The loader of goals."""

from collections.abc import Mapping
from typing import Any

from tonnage import installation
from tonnage.capacity import errors
from tonnage.extensions.moves.goals.goal import Arguments, Goal

NAMESPACE = "tonnage.moves.goals"


def load(name: str, arguments: Mapping[str, Any]) -> Goal:
    """Return the goal with this name.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for an unknown goal, and for arguments that it does not take.
    """
    plugins = installation.load_plugins(NAMESPACE, name)
    if not plugins:
        names = dict.fromkeys(point.name for point in installation.entry_points(NAMESPACE))
        raise errors.InvalidInput(f"goal is {name!r}: expected {', '.join(names)}")
    goal_class: type[Goal] = plugins[0]
    try:
        return goal_class(Arguments(arguments))
    except errors.InvalidInput as error:
        raise errors.InvalidInput(f"goal {name}: {error.message}") from None
