# SPDX-License-Identifier: Apache-2.0
"""Random expressions for filter and goodness functions."""

import random

_NUMBERS = [
    "stats.total_capacity_gb",
    "stats.free_capacity_gb",
    "stats.allocated_capacity_gb",
    "stats.reserved_percentage",
    "capabilities.provisioned_capacity_gb",
    "capabilities.latency",
    "capabilities.total_capacity_gb",
    "capabilities.dedup",
    "volume.size",
    "qos.maxIOPS",
]
_TEXTS = [
    ("stats.vendor_name", ["acme", "Acme", "other"]),
    ("stats.host", ["h1@b1#p1", "h2@b1#p2"]),
    ("stats.storage_protocol", ["iSCSI", "FC", "nfs", "ceph"]),
    ("capabilities.storage_protocol", ["iSCSI", "FC", "nfs"]),
    ("capabilities.media", ["ssd", "hdd"]),
    ("extra.tier", ["gold", "silver"]),
]
_COMPARISONS = ["<", "<=", ">", ">=", "==", "!=", "<>"]

#: Expressions that the two languages may evaluate differently.
_ODD = [
    "{condition} and {condition} and {condition}",
    "{condition} or {condition} or {condition}",
    "{condition} or {condition} or {condition}",
    "{condition} and {condition} and {condition}",
    "{number} > 5 ? {condition} : {number} > 6 ? {condition} : {condition}",
    "2 ^ -1 < {number}",
    "{number} and {number}",
    "{number} or 0",
    "'ssd'",
    "ssd",
    "stats.vendor_name",
    "'a' + 'b' == 'ab'",
    "max('a', 'b') == 'b'",
    "'ssd' < 5",
    "abs({number}, 3) > 1",
    "max({number}) > 1",
    "max({number}, 1, 2) > 1",
    "-{number} < 0",
    "+{number} > - -5",
    "not {number}",
    "!({condition})",
    "not {number} > 5",
    "({number}, 5)",
    "{number} >",
    "",
    "{number} = 5",
    "{number} / 0 > 1",
    "stats.nothing > 5",
    "nothing.at_all > 5",
    "stats.total_capacity_gb2 > 5",
    "{condition} & {condition}",
    "{condition} | {condition}",
    "1 < {number} < 100",
    "{number} * 0.1 + 1.5 > 2",
    "(({condition}) && ({condition})) || ({condition})",
    "2 ^ 2 ^ 0.5 < {number}",
    "-2 ^ 2 < {number}",
    "volume.volume_type == 'x'",
    "True",
    "{number} % 2",
    "capabilities.nested.level > 1",
    "stats.QoS_support == 1",
    "stats.QoS_support == True",
    "stats.updated == 1",
    "abs -5 > 1",
    "1.5.2 > 1",
    "'it''s' == 'its'",
]


def condition(dice: random.Random) -> str:
    """Return an expression whose result is mostly true or false."""
    return _odd(dice) if dice.random() < 0.2 else _condition(dice, dice.choice([0, 0, 1]), dice.choice([0, 1]))


def rating(dice: random.Random) -> str:
    """Return an expression whose result is mostly a number, often from 0 to 100."""
    kind = dice.random()
    if kind < 0.1:
        return _odd(dice)
    if kind < 0.3:
        return _condition(dice, 1, 0)
    if kind < 0.6:
        return f"{_condition(dice, 0, 0)} ? {dice.randint(0, 110)} : {dice.randint(0, 100)}"
    return dice.choice(["100 * ({}) / 1000", "min(100, {})", "({}) / 10", "{}"]).format(_number(dice, 1))


def _odd(dice: random.Random) -> str:
    text = dice.choice(_ODD)
    while "{condition}" in text:
        text = text.replace("{condition}", f"({_condition(dice, 0, 0)})", 1)
    while "{number}" in text:
        text = text.replace("{number}", _number(dice, 0), 1)
    return text


def _condition(dice: random.Random, depth: int, of_numbers: int) -> str:
    """Return a condition of this depth, with numbers of depth ``of_numbers``.

    Depths are small, because Cinder needs seconds to parse many parentheses.
    """
    kind = dice.random()
    if depth == 0:
        if kind < 0.3:
            name, values = dice.choice(_TEXTS)
            quote = dice.choice("'\"")
            return f"{name} {dice.choice(['==', '!='])} {quote}{dice.choice(values)}{quote}"
        return f"{_number(dice, of_numbers)} {dice.choice(_COMPARISONS)} {_number(dice, 0)}"
    left, right = _condition(dice, depth - 1, 0), _condition(dice, depth - 1, 0)
    if kind < 0.15:
        return f"{dice.choice(['not ', '!', 'NOT '])}({left})"
    if kind < 0.3:
        return f"({left}) ? ({right}) : ({_condition(dice, depth - 1, 0)})"
    return f"({left}) {dice.choice(['and', 'or', 'AND', 'OR', '&&', '||'])} ({right})"


def _number(dice: random.Random, depth: int) -> str:
    kind = dice.random()
    if depth == 0 or kind < 0.3:
        return dice.choice([*_NUMBERS, str(dice.randint(0, 500)), str(round(dice.uniform(0, 50), 1))])
    left, right = _number(dice, depth - 1), _number(dice, depth - 1)
    if kind < 0.4:
        return f"{dice.choice(['max', 'min'])}({left}, {right})"
    if kind < 0.45:
        return f"abs({left} - {right})"
    if kind < 0.5:
        return f"({left}) ^ {dice.choice(['2', '0.5', '1'])}"
    return f"({left} {dice.choice('+-*/')} {right})"
