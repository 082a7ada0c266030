# SPDX-License-Identifier: Apache-2.0
"""The rows of the contract, and the names and types that processes of other releases rely on."""

import dataclasses
import importlib
import pathlib
from types import NoneType

import pytest

from tonnage.capacity.explanation import Explanation
from tonnage.extensions.kubernetes.fit.node_fit_messages import FIT_NODES, FitAnswer, FitQuery
from tonnage.rpc import contract, messages
from tonnage.rpc.contract import Delivery
from tonnage.rpc.packed_reports import PackedReport

ROOT = pathlib.Path(__file__).resolve().parents[3]

#: The methods of schedulers as they are on the bus.
ON_THE_BUS = {
    "hello": (messages.Hello, messages.Welcome),
    "listing": (messages.Listing, messages.Receipt),
    "report": (PackedReport, NoneType),
    "notice": (messages.Notice, NoneType),
    "stamps": (messages.StampQuery, dict[str, int]),
    "outcomes": (messages.Outcomes, list[messages.Receipt]),
    "request_batch": (messages.RequestBatch, object),
    "create_group": (messages.CreateGroup, messages.GroupAnswer),
    "migrate_volume": (messages.MigrateVolume, messages.Answer),
    "retype_volume": (messages.RetypeVolume, messages.Answer),
    "manage_volume": (messages.ManageVolume, NoneType),
    "unmanage_volume": (messages.UnmanageVolume, NoneType),
    "set_backend_state": (messages.SetBackendState, NoneType),
    "list_now": (messages.ListBackends, NoneType),
    "get_pools": (messages.PoolQuery, list[messages.PoolView]),
    "get_pool_list": (messages.PoolListQuery, list[messages.PoolListText]),
    "explain": (messages.CreateVolume, Explanation),
    "what_if": (messages.WhatIf, list[messages.SimulationResult]),
    "fit_nodes": (FitQuery, FitAnswer),
}

SCHEDULER_METHODS = (*contract.SCHEDULER_METHODS, FIT_NODES)
ALL_METHODS = (*SCHEDULER_METHODS, *contract.BATCHED_METHODS, *contract.AGENT_METHODS)


def test_the_methods_have_the_names_and_types_of_version_1() -> None:
    assert {method.name: (method.message, method.answer) for method in SCHEDULER_METHODS} == ON_THE_BUS
    assert [method.name for method in contract.AGENT_METHODS] == [
        "run",
        "report_now",
        "list_now",
        "take_stamps",
        "rejoin",
    ]


def test_batched_methods_are_the_fields_of_a_batch() -> None:
    fields = [field.name for field in dataclasses.fields(messages.RequestBatch)]
    assert [method.name for method in contract.BATCHED_METHODS] == fields
    assert all(method.keyed for method in contract.BATCHED_METHODS), "the server checks each request id"


def test_only_calls_that_take_effect_once_are_sent_again() -> None:
    """A request with a key does, and so does a message of an agent or a question."""
    changes = {method.name for method in SCHEDULER_METHODS if method.answer is NoneType and not method.keyed}
    assert changes == {"report", "notice", "list_now", "set_backend_state"}
    single = {method.name for method in SCHEDULER_METHODS if method.delivery is Delivery.SINGLE_CALL}
    assert single == {"hello", "listing", "set_backend_state", "explain", "what_if", "fit_nodes"}


@pytest.mark.parametrize("method", ALL_METHODS, ids=lambda method: method.name)
def test_a_row_is_consistent(method: contract.Method[object, object]) -> None:
    is_cast = method.delivery in (Delivery.CAST, Delivery.FANOUT)
    assert not is_cast or method.answer is NoneType
    assert not is_cast or method.timeout is None
    assert not method.keyed or issubclass(method.message, messages.KeyedRequest)
    assert method.meaning
    assert not method.meaning.endswith(".")


def test_the_tables_of_the_documentation_are_those_of_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    rpc_tables = importlib.import_module("rpc_tables")
    for name, methods in rpc_tables.TABLES.items():
        assert (ROOT / "docs" / name).read_text() == rpc_tables.table(methods), "run tools/rpc_tables.py"
    shown = {method.name for methods in rpc_tables.TABLES.values() for method in methods}
    assert shown == {method.name for method in ALL_METHODS}
