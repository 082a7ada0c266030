# SPDX-License-Identifier: Apache-2.0
"""Argument types for argparse. It reports an invalid value together with the name of its option.

The types that need the decision code import it when a value is given, so that ``--help`` does not wait for it.
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

from tonnage.capacity import errors

#: Exit status if at least one request would be refused.
FOUND = 3

#: Default project of a question.
PROJECT = "demo"


def size(text: str) -> int:
    """Parse a size in whole GiB."""
    from tonnage.api.schemas import fields

    return int(_read(fields.Size.parse, text))


def name(text: str) -> str:
    """Parse a name. An empty one, mostly of a variable of the shell that is not set, would select something else."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a name, which is not empty")
    return text


def count(maximum: int) -> Callable[[str], int]:
    """Return an argument type for whole numbers from 1 to ``maximum``."""

    def read(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= maximum:
            raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from 1 to {maximum}")
        return int(text)

    return read


def number_or_all(text: str) -> int:
    """Parse a number of rows or updates, 0 for all of them."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number, 0 for all")
    return int(text)


def hint(text: str) -> tuple[str, str]:
    """Parse KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: expected KEY=VALUE")
    return key, value


def node(text: str) -> dict[str, Any]:
    """Parse a node with labels, NAME[:KEY=VALUE,...]. Return the scheduler hints for it."""
    from tonnage.capacity.topology import requirements

    name, _, labels = text.partition(":")
    pairs = [label.partition("=") for label in labels.split(",") if label]
    if not name or not all(key and equals for key, equals, _ in pairs):
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME or NAME:KEY=VALUE,...")
    hints: dict[str, Any] = {requirements.NODE: name}
    if pairs:
        segments = {key: value for key, _, value in pairs}
        hints[requirements.REQUIREMENTS] = {"requisite": [{"segments": segments}]}
    return hints


def ratio(text: str) -> tuple[str, float | str]:
    """Parse [POOL=]RATIO. Without a pool the returned name is empty."""
    from tonnage.capacity.over_subscription import parse_ratio

    name, value = _split_name(text, "POOL=RATIO")
    return name, _read(parse_ratio, value)


def percentage(text: str) -> tuple[str, float]:
    """Parse [POOL=]PERCENT. Without a pool the returned name is empty."""

    def parse(value: str) -> float:
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number <= 100:
            raise ValueError("expected a percentage from 0 to 100")
        return number

    name, value = _split_name(text, "POOL=PERCENT")
    return name, _read(parse, value)


def pool_or_backend(text: str) -> str:
    """Parse the name of a pool or backend."""
    backend, number, pool = text.partition("#")
    if not all(backend.partition("@")) or (number and not pool):
        raise argparse.ArgumentTypeError(f"{text!r}: expected host@backend#pool or host@backend")
    return text


def new_pool(text: str) -> dict[str, Any]:
    """Parse a pool in the format of drivers' reports, with its full name as pool_name, from JSON or @FILE."""
    from tonnage.capacity.pools.pool_table import PoolTable
    from tonnage.capacity.reports import hypothetical_pools

    pool = json_file(text[1:]) if text.startswith("@") else _json(text, text)
    if not isinstance(pool, dict):
        raise argparse.ArgumentTypeError(f"{text}: expected a JSON object")
    try:
        hypothetical_pools.apply(
            PoolTable(), hypothetical_pools.Changes(added=(pool,)), hypothetical_pools.Defaults(ratio=1.0)
        )
    except errors.InvalidInput as error:
        raise argparse.ArgumentTypeError(error.message.removeprefix("added: ")) from None
    return pool


def json_file(path: str) -> Any:
    """Parse a JSON file; - is standard input."""
    try:
        text = sys.stdin.read() if path == "-" else pathlib.Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise argparse.ArgumentTypeError(f"{path} is no JSON: {error}") from None
    return _json(text, path)


def _json(text: str, label: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{label} is no JSON: {error}") from None


def _split_name(text: str, expected: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if equals and not name:
        raise argparse.ArgumentTypeError(f"{text!r}: expected {expected}")
    return (pool_or_backend(name) if equals else ""), value


def _read(parse: Callable[[Any], Any], text: str) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        message = str(error)
        raise argparse.ArgumentTypeError(message if repr(text) in message else f"{text!r}: {message}") from None
