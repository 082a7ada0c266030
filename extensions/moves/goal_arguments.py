# SPDX-License-Identifier: Apache-2.0
"""The goal of a plan and its arguments on a command line."""

import argparse
from collections.abc import Collection, Mapping
from typing import Any

from tonnage.cli.simulation import argument_types

#: The bounds of a pool.
BOUNDS = ("physical", "promised")

#: The options of the goals of Tonnage; an out-of-tree goal may take any.
_OPTIONS: Mapping[str, Collection[str]] = {
    "empty": (),
    "relieve": ("below", "bound"),
    "balance": ("points", "zone"),
    "fit": ("zone", "type", "count"),
}


def add(parser: argparse.ArgumentParser) -> None:
    """Add the goal and its arguments to a parser."""
    parser.add_argument("goal", type=argument_types.name, metavar="GOAL", help="empty, relieve, balance or fit")
    parser.add_argument(
        "subjects",
        nargs="*",
        type=argument_types.name,
        metavar="SUBJECT",
        help="host@backend#pool, host@backend, or for the goal fit the GiB of each volume",
    )
    parser.add_argument("--below", type=_percent, metavar="PERCENT", help="relieve: the share of the bound")
    parser.add_argument("--bound", choices=BOUNDS, help="relieve: the bound (default: physical)")
    parser.add_argument(
        "--points",
        type=_percent,
        metavar="POINTS",
        help="balance: percent of its limit that a pool may be above the mean (default: 10)",
    )
    parser.add_argument("--zone", type=argument_types.name, help="balance, fit: the availability zone")
    parser.add_argument("--type", type=argument_types.name, help="fit: the volume type, by name or id")
    parser.add_argument(
        "--keep-forecast", action="store_true", help="keep room for the upper range of the forecast of each pool"
    )
    parser.add_argument("--count", type=argument_types.count(1000), metavar="N", help="fit: so many volumes")


def read(parser: argparse.ArgumentParser, parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Return the goal and its arguments as the REST API takes them.

    A wrong number of subjects is a usage error, and so is an option that the goal does not take.
    """
    names = {"below": "below", "bound": "bound", "points": "points", "zone": "zone", "type": "volume_type"}
    values = {name: getattr(parsed_args, option) for option, name in {**names, "count": "count"}.items()}
    arguments = {name: value for name, value in values.items() if value is not None}
    if parsed_args.keep_forecast:
        arguments["keep_forecast"] = True
    goal, subjects = parsed_args.goal, parsed_args.subjects
    options = (*names, "count")
    for option in options:
        if getattr(parsed_args, option) is not None and option not in _OPTIONS.get(goal, options):
            parser.error(f"the goal {goal} takes no --{option}")
    if goal == "relieve" and parsed_args.below is None:
        parser.error("the goal relieve takes --below PERCENT")
    if goal == "balance":
        if subjects:
            arguments["pools"] = subjects
    elif len(subjects) != 1:
        hint = "" if goal in _OPTIONS else f"; the goals of Tonnage are {', '.join(_OPTIONS)}"
        parser.error(f"the goal {goal} takes one SUBJECT, not {len(subjects)}{hint}")
    else:
        name = {"empty": "target", "fit": "size"}.get(goal, "pool")
        arguments[name] = _size(parser, subjects[0]) if name == "size" else subjects[0]
    return {"goal": goal, "arguments": arguments}


def _size(parser: argparse.ArgumentParser, text: str) -> int:
    try:
        return argument_types.size(text)
    except argparse.ArgumentTypeError as error:
        parser.error(f"argument SUBJECT: {error}")


def _percent(text: str) -> float:
    """Parse a number from 0 to 100."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number from 0 to 100")
    return number
