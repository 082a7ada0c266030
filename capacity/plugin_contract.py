# SPDX-License-Identifier: Apache-2.0
"""What a class of plugins tells of its verdicts so that they can be kept, and its subclasses that judge otherwise."""

from collections.abc import Collection


def withdraw(plugin: type, base: type, told: Collection[str], verdicts: Collection[str]) -> None:
    """Have a plugin not tell what it inherits of verdicts that it overrides: ``base`` promises nothing.

    ``told`` are the names of methods and attributes, ``verdicts`` those of methods. Else the promises of the class that
    it extends would be relied on.
    """
    for name in told:
        if any(_place(plugin, verdict) < _place(plugin, name) for verdict in verdicts):
            setattr(plugin, name, getattr(base, name))


def _place(plugin: type, name: str) -> int:
    """Return how far from a class it is in its line of ancestors that something is defined."""
    places = (place for place, each in enumerate(plugin.__mro__) if name in vars(each))
    return next(places, len(plugin.__mro__))
