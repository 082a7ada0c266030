# SPDX-License-Identifier: Apache-2.0
"""Tests of TopologyFilter, also against a simple implementation of Kubernetes' rules."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.capacity.strategies import PROPERTY
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.chain import FilterChain
from tonnage.filters.topology import TopologyFilter

PLUGIN = TopologyFilter(SimpleNamespace())
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")

NAMES = st.sampled_from(["n1", "n2", "n3"])
KEYS = st.sampled_from(["zone", "rack", "size"])
VALUES = st.sampled_from(["a", "b", "3", "4"])
LABELS = st.dictionaries(KEYS, VALUES, max_size=3)


def expression(key: str, operator: str, value: str, more: str) -> dict[str, Any]:
    if operator in ("Gt", "Lt"):
        return {"key": key, "operator": operator, "values": ["3" if value == "a" else "4"]}
    return {"key": key, "operator": operator, "values": [] if "Exist" in operator else [value, more]}


EXPRESSIONS = st.builds(expression, KEYS, st.sampled_from(OPERATORS), VALUES, VALUES)
FIELDS = st.builds(
    lambda operator, name: {"key": "metadata.name", "operator": operator, "values": [name]},
    st.sampled_from(["In", "NotIn"]),
    NAMES,
)
TERMS = st.fixed_dictionaries(
    {"matchExpressions": st.lists(EXPRESSIONS, max_size=2)}, optional={"matchFields": st.lists(FIELDS, max_size=1)}
)
REPORTED = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"node_name": NAMES}, optional={"topology_labels": LABELS}),
    st.fixed_dictionaries({"node_list": st.lists(NAMES, min_size=1, unique=True)}),
    st.fixed_dictionaries({"topology_labels": LABELS}),
    st.fixed_dictionaries(
        {"node_topology": st.fixed_dictionaries({"nodeSelectorTerms": st.lists(TERMS, min_size=1, max_size=2)})}
    ),
    st.sampled_from([{"node_name": 5}, {"node_list": []}, {"topology_labels": "zone"}]),
)
HINTS = st.fixed_dictionaries(
    {},
    optional={
        "node_name": NAMES,
        "accessibility_requirements": st.lists(LABELS.filter(bool), max_size=2).map(
            lambda found: {"requisite": [{"segments": labels} for labels in found]}
        ),
    },
)


def holds(one: dict[str, Any], value: str | None) -> bool:
    operator, values = one["operator"], one["values"]
    if operator in ("Gt", "Lt"):
        if value is None or not value.isdigit():
            return False
        return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[operator]


def reached(reported: dict[str, Any], node: str | None, labels: dict[str, str]) -> bool:
    """Return whether a pool is accessible from a node with these labels."""
    names = reported.get("node_list", [reported["node_name"]] if "node_name" in reported else [])
    if 5 in names or reported.get("node_list") == [] or reported.get("topology_labels") == "zone":
        return False
    if names and (node is not None or not reported.get("topology_labels")):
        return node in names
    if "node_topology" in reported:
        return any(
            (term["matchExpressions"] or term.get("matchFields"))
            and all(holds(one, labels.get(one["key"])) for one in term["matchExpressions"])
            and all(holds(one, node) for one in term.get("matchFields", []))
            for term in reported["node_topology"]["nodeSelectorTerms"]
        )
    return reported.get("topology_labels", {}).items() <= labels.items()


def expected(reported: dict[str, Any], hints: dict[str, Any]) -> bool:
    node = hints.get("node_name")
    topologies = [each["segments"] for each in hints.get("accessibility_requirements", {}).get("requisite", [])]
    if node is None and not topologies:
        return True
    return any(reached(reported, node, labels) for labels in topologies or [{}])


def table(reports: list[dict[str, Any]]) -> PoolTable:
    return PoolTable(
        Pool(name=f"h@b#{number}", total=1.0, free=1.0, capabilities=reported)
        for number, reported in enumerate(reports)
    )


@PROPERTY
@given(st.lists(REPORTED, max_size=6), st.lists(st.tuples(st.integers(0, 5), REPORTED), max_size=3), st.lists(HINTS))
def test_the_verdicts_equal_the_rules_of_kubernetes_for_each_pool(
    reports: list[dict[str, Any]], changes: list[tuple[int, dict[str, Any]]], asked: list[dict[str, Any]]
) -> None:
    pools, chain = table(reports), FilterChain([PLUGIN])
    for number, reported in [(None, {}), *changes]:
        if number is not None:
            reports = (
                [*reports, reported]
                if number >= len(reports)
                else [*reports[:number], reported, *reports[number + 1 :]]
            )
            pools.put_all(table(reports))
        for hints in asked:
            for sent in (
                hints,
                {key: value if key == "node_name" else json.dumps(value) for key, value in hints.items()},
            ):
                request = Request("r", 1, hints=sent)
                wanted = [expected(each, hints) for each in reports]
                assert PLUGIN.accepts(pools, request).tolist() == wanted
                assert chain.candidates(pools, request).tolist() == wanted
                for number_, ok in enumerate(wanted):
                    if not ok:
                        code = PLUGIN.reason(pools.row(number_), request).code
                        assert code in ("unreachable", "topology_unclear")


PREFERRED = [{"segments": {"zone": "z2"}}, {"segments": {"zone": "z1", "rack": "r1"}}]


@pytest.mark.parametrize(
    ("reported", "rank"),
    [
        ({"topology_labels": {"zone": "z2"}}, 0),
        ({"topology_labels": {"zone": "z1"}}, 1),
        ({"topology_labels": {"rack": "r1"}}, 1),
        ({"topology_labels": {"zone": "z1", "rack": "r2"}}, None),
        ({"topology_labels": {"zone": "z3"}}, None),
        ({}, 0),
        ({"node_name": "n1"}, None),
        ({"node_list": []}, None),
    ],
)
def test_pools_are_ranked_by_the_first_preferred_topology(reported: dict[str, Any], rank: int | None) -> None:
    last = {"topology_labels": {"zone": "z9"}}
    hints = {"accessibility_requirements": {"preferred": PREFERRED}}
    ranks = PLUGIN.ranks(table([last, reported]), Request("r", 1, hints=hints))
    assert ranks is not None
    assert ranks[1] == (ranks[0] if rank is None else rank)


@pytest.mark.parametrize(
    "hints",
    [
        {},
        {"node_name": "n1"},
        {"accessibility_requirements": {"requisite": PREFERRED}},
        {"accessibility_requirements": "z"},
    ],
)
def test_only_requests_with_preferences_rank_pools(hints: dict[str, Any]) -> None:
    assert PLUGIN.ranks(table([{"node_name": "n1"}, {}]), Request("r", 1, hints=hints)) is None


@PROPERTY
@given(st.lists(REPORTED, max_size=6), st.lists(LABELS.filter(bool), min_size=1, max_size=4), st.none() | NAMES)
def test_ranks_equal_the_rules_of_kubernetes_for_each_topology(
    reports: list[dict[str, Any]], preferred: list[dict[str, str]], node: str | None
) -> None:
    topologies = [{"segments": labels} for labels in preferred]
    hints = {"node_name": node, "accessibility_requirements": {"preferred": topologies}}
    ranks = PLUGIN.ranks(table(reports), Request("r", 1, hints=hints))
    assert ranks is not None
    for rank, reported in zip(ranks.tolist(), reports, strict=True):
        matches = [position for position, labels in enumerate(preferred) if reached(reported, node, labels)]
        assert rank == (matches[0] if matches else 1000)


def test_without_a_required_topology_every_pool_is_accepted() -> None:
    pools = table([{"node_name": "n1"}, {}])
    request = Request("r", 1, hints={"query": ""})
    assert PLUGIN.accepts(pools, request).all()


@pytest.mark.parametrize(
    ("reported", "hints", "message"),
    [
        (
            {"node_name": "n2"},
            {"node_name": "n1"},
            "can be reached from node n2, and the volume is needed on node n1",
        ),
        (
            {"topology_labels": {"zone": "z1", "rack": "r3"}},
            {"node_name": "n1", "accessibility_requirements": {"requisite": [{"segments": {"zone": "z2"}}]}},
            "can be reached from nodes with rack=r3, zone=z1, and the volume is needed on node n1 with zone=z2",
        ),
        (
            {"node_name": 5},
            {"node_name": "n1"},
            "does not tell clearly from where it can be reached: Expected `str | null`, got `int` - at `$.node_name`",
        ),
        ({}, {"node_name": 5}, "cannot be judged by the hint node_name: '5' is no name of a node"),
    ],
)
def test_reasons_have_the_values_of_both_sides(reported: dict[str, Any], hints: dict[str, Any], message: str) -> None:
    pools, request = table([reported]), Request("r", 1, hints=hints)
    assert not PLUGIN.accepts(pools, request).any()
    assert PLUGIN.reason(pools.row(0), request).message == message
