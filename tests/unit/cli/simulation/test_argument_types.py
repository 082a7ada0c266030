# SPDX-License-Identifier: Apache-2.0
"""The types of arguments: values, and the errors that argparse reports."""

import argparse
import io
import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from tonnage.cli.simulation import argument_types


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (argument_types.size, "7", 7),
        (argument_types.count(3), "1", 1),
        (argument_types.count(3), "3", 3),
        (argument_types.number_or_all, "0", 0),
        (argument_types.number_or_all, "12", 12),
        (argument_types.hint, "same_host=v=w", ("same_host", "v=w")),
        (argument_types.hint, "key=", ("key", "")),
        (argument_types.ratio, "2.5", ("", 2.5)),
        (argument_types.ratio, "auto", ("", "auto")),
        (argument_types.ratio, "h@b#p=20", ("h@b#p", 20.0)),
        (argument_types.percentage, "0", ("", 0.0)),
        (argument_types.percentage, "h@b=100", ("h@b", 100.0)),
        (argument_types.pool_or_backend, "h@b", "h@b"),
        (argument_types.pool_or_backend, "h@b#p", "h@b#p"),
    ],
)
def test_a_valid_value_is_parsed(parse: Callable[[str], Any], text: str, value: object) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (argument_types.size, "0"),
        (argument_types.size, "1.5"),
        (argument_types.count(3), "4"),
        (argument_types.count(3), "0"),
        (argument_types.count(3), "-1"),
        (argument_types.number_or_all, "-1"),
        (argument_types.number_or_all, "all"),
        (argument_types.hint, "=value"),
        (argument_types.hint, "key"),
        (argument_types.ratio, "0.5"),
        (argument_types.ratio, "=2"),
        (argument_types.percentage, "100.1"),
        (argument_types.percentage, "-0.1"),
        (argument_types.percentage, "nan"),
        (argument_types.percentage, "half"),
        (argument_types.pool_or_backend, "h"),
        (argument_types.pool_or_backend, "@b"),
        (argument_types.pool_or_backend, "h@b#"),
    ],
)
def test_an_invalid_value_is_an_error_with_the_value(parse: Callable[[str], Any], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        parse(text)
    assert repr(text) in str(caught.value)


def test_a_node_is_a_hint_and_its_labels_a_requirement() -> None:
    assert argument_types.node("n1") == argument_types.node("n1:")
    named = argument_types.node("n1")
    assert list(named.values()) == ["n1"]
    labelled = argument_types.node("n1:zone=z1,rack=r3")
    assert list(labelled.values()) == ["n1", {"requisite": [{"segments": {"zone": "z1", "rack": "r3"}}]}]
    for text in ("", ":zone=z1", "n1:zone", "n1:=z1"):
        with pytest.raises(argparse.ArgumentTypeError, match="expected NAME or NAME:KEY=VALUE"):
            argument_types.node(text)


def test_a_new_pool_is_a_report_in_the_argument_or_in_a_file(tmp_path: pathlib.Path) -> None:
    pool = {"pool_name": "h@b#p", "total_capacity_gb": 10, "free_capacity_gb": 5}
    (tmp_path / "pool.json").write_text(json.dumps(pool), encoding="utf-8")
    assert argument_types.new_pool(json.dumps(pool)) == pool
    assert argument_types.new_pool(f"@{tmp_path}/pool.json") == pool
    with pytest.raises(argparse.ArgumentTypeError, match=r"^7: expected a JSON object$"):
        argument_types.new_pool("7")
    with pytest.raises(argparse.ArgumentTypeError, match=r"^pool 'p': total_capacity_gb is missing"):
        argument_types.new_pool('{"pool_name": "h@b#p"}')


def test_json_is_read_from_a_file_or_from_standard_input(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("[1]"))
    assert argument_types.json_file("-") == [1]
    file = tmp_path / "requests"
    with pytest.raises(argparse.ArgumentTypeError, match=r"/requests: No such file or directory$"):
        argument_types.json_file(str(file))
    for content in (b"\xff", b"{", b"[" * 100_000):
        file.write_bytes(content)
        with pytest.raises(argparse.ArgumentTypeError, match=r"/requests is no JSON: "):
            argument_types.json_file(str(file))
