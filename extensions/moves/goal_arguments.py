# SPDX-License-Identifier: Apache-2.0
"""The goal of a plan and its arguments on a command line, as the goals declare them."""

import argparse
import difflib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tonnage.capacity import errors
from tonnage.cli.simulation import argument_types
from tonnage.extensions.moves.goals import goal_loader
from tonnage.extensions.moves.goals.arguments import Argument

if TYPE_CHECKING:
    from tonnage.cli.rest.api_client import ApiClient

#: The names of the parsed options in the namespace begin with this: goals are free to call them what they like.
_PREFIX = "goal_"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the goal and its arguments to a parser."""
    names = goal_loader.names()
    parser.add_argument(
        "goal", type=argument_types.name, metavar="GOAL", help=f"{', '.join(names[:-1])} or {names[-1]}"
    )
    # With a default argparse does not call it required: some goals take none.
    parser.add_argument(
        "subjects",
        nargs="*",
        type=argument_types.name,
        metavar="SUBJECT",
        default=[],
        help=_of_goals(_subjects(names)),
    )
    for option, declared in _options(names).items():
        first = next(iter(declared.values()))
        # It may be a list for one goal, and a single value for another.
        default = "" if first.default in (None, "") else f" (default: {first.default})"
        parser.add_argument(
            f"--{option}",
            dest=_PREFIX + option,
            action="append",
            metavar=first.metavar,
            help=(_of_goals(declared) + default).replace("%", "%%"),
        )
    parser.add_argument(
        "--keep-forecast", action="store_true", help="keep room for the upper range of the forecast of each pool"
    )


def _subjects(names: list[str]) -> dict[str, Argument]:
    """Return the subjects by the goals that have them."""
    return {name: goal_loader.find(name).arguments[0] for name in names}


def _options(names: list[str]) -> dict[str, dict[str, Argument]]:
    """Return the options, each with the goals that have it and their arguments."""
    options: dict[str, dict[str, Argument]] = defaultdict(dict)
    for name in names:
        for argument in goal_loader.find(name).arguments[1:]:
            options[argument.option_name][name] = argument
    return options


def _of_goals(declared: dict[str, Argument]) -> str:
    """Return the meaning of an argument, with the goals that have it."""
    goals: dict[str, list[str]] = defaultdict(list)
    for goal, argument in declared.items():
        goals[argument.summary].append(goal)
    return "; ".join(f"{', '.join(names)}: {summary}" for summary, names in goals.items())


def read(
    parser: argparse.ArgumentParser, parsed_args: argparse.Namespace, commands: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the goal and its arguments as the REST API takes them.

    Wrong ones are usage errors: an unknown goal, a wrong number of subjects, an option that the goal does not take or
    that it requires, and a wrong value. ``commands`` are the commands that a misspelt goal could mean.
    """
    goal = parsed_args.goal
    if goal not in goal_loader.names():
        parser.error(_unknown(goal, commands))
    subject, *others = goal_loader.find(goal).arguments
    arguments = _subject(parser, goal, subject, parsed_args.subjects)
    prefix = len(_PREFIX)
    words = {
        name[prefix:]: value
        for name, value in vars(parsed_args).items()
        if name.startswith(_PREFIX) and value is not None
    }
    for argument in others:
        option = argument.option_name
        if (texts := words.pop(option, None)) is not None:
            arguments[argument.name] = _value(parser, f"--{option}", argument, texts)
        elif argument.default is None:
            parser.error(f"the goal {goal} takes --{option} {argument.metavar}")
    for option in words:
        parser.error(f"the goal {goal} takes no --{option}")
    if parsed_args.keep_forecast:
        arguments["keep_forecast"] = True
    return {"goal": goal, "arguments": arguments}


def words(parsed_args: argparse.Namespace) -> list[str]:
    """Return the goal and its arguments as the words of a command line."""
    prefix = len(_PREFIX)
    named = {name: texts for name, texts in vars(parsed_args).items() if name.startswith(_PREFIX) and texts}
    options = [word for name, texts in named.items() for text in texts for word in (f"--{name[prefix:]}", text)]
    keep = ["--keep-forecast"] if parsed_args.keep_forecast else []
    return [parsed_args.goal, *parsed_args.subjects, *options, *keep]


def with_full_names(api: "ApiClient", goal: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a goal with the full names of pools of which the command line has short ones.

    Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.InvalidInput` for a short
    name that no pool or several have, and the errors of the client.
    """
    arguments = dict(goal["arguments"])
    names: list[str] | None = None
    for argument in goal_loader.find(goal["goal"]).arguments:
        value = arguments.get(argument.name)
        texts: list[Any] = list(value) if argument.is_list and value else [value]
        if not argument.names_pools or not any(map(_is_short, texts)):
            continue
        from tonnage.cli.overviews import pool, pools
        from tonnage.cli.rest import ledger_rows

        if names is None:
            names = [row.pool.name for row in pools.load(ledger_rows.over_rest(api))]
        texts = [pool.full_name(text, names) if _is_short(text) else text for text in texts]
        arguments[argument.name] = texts if argument.is_list else texts[0]
    return arguments


def _is_short(text: Any) -> bool:
    """Return whether a text is no full name: those of pools and of backends have the character."""
    return isinstance(text, str) and "@" not in text


def _unknown(word: str, commands: Sequence[str]) -> str:
    """Return the message about a word that is no goal, with the goals and the commands that it could mean."""
    goals = goal_loader.names()
    choices = {name: name for name in goals} | {name.rpartition(" ")[2]: name for name in commands}
    similar = [choices[match] for match in difflib.get_close_matches(word, choices)]
    advice = f"did you mean {' or '.join(similar)}? The" if similar else "the"
    message = f"{word!r} is no goal: {advice} goals are {', '.join(goals)}"
    return f"{message}; the commands are {', '.join(commands)}" if commands else message


def _subject(parser: argparse.ArgumentParser, goal: str, subject: Argument, words: list[str]) -> dict[str, Any]:
    if subject.is_list:
        return {subject.name: _value(parser, "SUBJECT", subject, words)} if words else {}
    if not words:
        parser.error(f"the goal {goal} takes a SUBJECT: {subject.summary}")
    if len(words) > 1:
        parser.error(f"the goal {goal} takes one SUBJECT, {subject.summary}, and not {len(words)}: {' '.join(words)}")
    return {subject.name: _value(parser, "SUBJECT", subject, words)}


def _value(parser: argparse.ArgumentParser, name: str, argument: Argument, texts: list[str]) -> Any:
    """Return the value of the last text, or the joined values of all if it is a list."""
    try:
        values = [argument.parse(text) for text in texts]
        return [part for value in values for part in value] if argument.is_list else values[-1]
    except errors.InvalidInput as error:
        parser.error(f"argument {name}: {error.message}")
