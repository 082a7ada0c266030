# SPDX-License-Identifier: Apache-2.0
"""Random cases about JSON queries of requests and functions of drivers."""

import json
import random
from typing import Any

from cinder_comparison import case_elements, expressions
from cinder_comparison.cases import PLACES, Case, CaseRequest


def queries(dice: random.Random) -> Case:
    """Return a case about a JSON query."""
    pools = case_elements.detailed_pools(dice)
    query = _query(dice, dice.choice([1, 1, 2, 3, 3]))
    text: Any = json.dumps(query)
    odd = dice.random()
    if odd < 0.02:
        text = dice.choice([text[:-1], "hello", '"text"', "5", '{"=": 1}'])
    elif odd < 0.04:
        text = dice.choice([query, "", None, "[]"])
    hints = {"query": text} if dice.random() < 0.95 else {}
    return Case("JsonFilter", CaseRequest(1, hints=hints), pools)


def _query(dice: random.Random, depth: int) -> list[Any]:
    if depth > 1:
        parts = [_query(dice, depth - 1) for _ in range(dice.choice([0, 1, 2, 2, 3]))]
        return [dice.choice(["and", "or", "and", "or", "not"]), *parts]
    operator = dice.choices(["=", "<", ">", "<=", ">=", "in", "not", "or", "~"], [10, 1, 1, 1, 1, 6, 1, 1, 0.3])[0]
    return [operator, *(_operand(dice) for _ in range(dice.choice([0, 1, 2, 2, 2, 2, 2, 3])))]


def _operand(dice: random.Random) -> Any:
    return dice.choice(
        [
            "$" + dice.choice(["host", "backend_id", "pool_name", "vendor_name", "driver_version", "storage_protocol"]),
            "$"
            + dice.choice(["free_capacity_gb", "total_capacity_gb", "allocated_capacity_gb", "reserved_percentage"]),
            "$" + dice.choice(["provisioned_capacity_gb", "QoS_support", "multiattach"]),
            "$max_over_subscription_ratio",
            "$" + dice.choice(["thin_provisioning_support", "thick_provisioning_support", "nothing"]),
            "$capabilities."
            + dice.choice(["media", "latency", "dedup", "nested.level", "nested", "none", "vendor_name"]),
            "$capabilities." + dice.choice(["total_capacity_gb", "thin_provisioning_support", "media.deeper"]),
            dice.choice(["$service.availability_zone", "$capabilities.timestamp.x", "$filter_function"]),
            dice.choice(["ssd", "hdd", "acme", "iSCSI", "1.0", "", None, "east"]),
            dice.choice([0, 1, 2, 5, 10, 100, 500, 2.5, True, False]),
            dice.choice(PLACES),
        ]
    )


def filter_functions(dice: random.Random) -> Case:
    """Return a case about ``filter_function`` of drivers."""
    pools = case_elements.detailed_pools(dice)
    for pool in pools:
        if dice.random() < 0.95:
            pool.report["filter_function"] = expressions.condition(dice)
    return Case("DriverFilter", case_elements.typed_request(dice), pools)
