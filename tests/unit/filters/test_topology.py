# SPDX-License-Identifier: Apache-2.0
"""TopologyFilter, also against a judgement pool by pool, by Kubernetes' rules written out."""

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


def reached(said: dict[str, Any], node: str | None, labels: dict[str, str]) -> bool:
    """Judge one pool and one place."""
    names = said.get("node_list", [said["node_name"]] if "node_name" in said else [])
    if 5 in names or said.get("node_list") == [] or said.get("topology_labels") == "zone":
        return False
    if names and (node is not None or not said.get("topology_labels")):
        return node in names
    if "node_topology" in said:
        return any(
            (term["matchExpressions"] or term.get("matchFields"))
            and all(holds(one, labels.get(one["key"])) for one in term["matchExpressions"])
            and all(holds(one, node) for one in term.get("matchFields", []))
            for term in said["node_topology"]["nodeSelectorTerms"]
        )
    return said.get("topology_labels", {}).items() <= labels.items()


def expected(said: dict[str, Any], hints: dict[str, Any]) -> bool:
    node = hints.get("node_name")
    topologies = [each["segments"] for each in hints.get("accessibility_requirements", {}).get("requisite", [])]
    if node is None and not topologies:
        return True
    return any(reached(said, node, labels) for labels in topologies or [{}])


def table(reports: list[dict[str, Any]]) -> PoolTable:
    return PoolTable(
        Pool(name=f"h@b#{number}", total=1.0, free=1.0, capabilities=said) for number, said in enumerate(reports)
    )


@PROPERTY
@given(st.lists(REPORTED, max_size=6), st.lists(st.tuples(st.integers(0, 5), REPORTED), max_size=3), st.lists(HINTS))
def test_each_pool_is_judged_as_it_would_be_alone(
    reports: list[dict[str, Any]], changes: list[tuple[int, dict[str, Any]]], asked: list[dict[str, Any]]
) -> None:
    pools, chain = table(reports), FilterChain([PLUGIN])
    for number, said in [(None, {}), *changes]:
        if number is not None:
            reports = [*reports, said] if number >= len(reports) else [*reports[:number], said, *reports[number + 1 :]]
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


def test_what_is_needed_nowhere_in_particular_is_not_looked_at() -> None:
    pools = table([{"node_name": "n1"}, {}])
    request = Request("r", 1, hints={"query": ""})
    assert PLUGIN.kept_by(request) == ()
    assert PLUGIN.accepts(pools, request).all()
    assert pools._values == {}
    assert PLUGIN.kept_by(Request("r", 1, hints={"node_name": "n1"})) is None


@pytest.mark.parametrize(
    ("said", "hints", "message"),
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
def test_reasons_have_the_values_of_both_sides(said: dict[str, Any], hints: dict[str, Any], message: str) -> None:
    pools, request = table([said]), Request("r", 1, hints=hints)
    assert not PLUGIN.accepts(pools, request).any()
    assert PLUGIN.reason(pools.row(0), request).message == message
