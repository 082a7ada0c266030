# SPDX-License-Identifier: Apache-2.0
"""Tests of ``tonnage explain`` and ``tonnage what-if``: errors name command-line options and have status 2."""

import json
import pathlib
from types import SimpleNamespace

import pytest

from tests.unit.cli import command_runs
from tests.unit.cli.conftest import Asked
from tonnage.capacity import errors
from tonnage.capacity.explanation import Explanation, PoolVerdict, Weight
from tonnage.cli import setup, tonnage
from tonnage.rpc.messages import SimulationResult


def run(*arguments: str) -> int:
    return command_runs.run(tonnage.program(), arguments, SimpleNamespace(default_volume_type=None))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain"], "no request: name a SIZE, or requests with --file"),
        (["explain", "1", "--type", "x" * 300], "--type: "),
        (["explain", "1", "--count", "2", "--zone", "x" * 300], "--zone: "),
        (["explain", "1", "--extend", ""], "--extend: "),
        (["explain", "--migrate", ""], "--migrate: "),
        (["explain", "--migrate", "v", "--to", "x" * 300], "--to: "),
        (["explain", "--retype", "", "--type", "t"], "--retype: "),
        (["explain", "--retype", "v", "--type", "x" * 300], "--type: "),
        (["explain", "--retype", "v"], "--retype takes the other type as --type"),
        (["explain", "--migrate", "v", "--node", "n1"], "--node goes with SIZE, a new volume"),
        (["explain", "1", "--migrate", "v"], "name one of SIZE, --migrate and --retype"),
        (["explain", "--migrate", "v", "--retype", "v"], "name one of SIZE, --migrate and --retype"),
    ],
)
def test_an_invalid_request_is_reported_with_its_option(arguments: list[str], message: str) -> None:
    with pytest.raises(setup.UsageError) as caught:
        run(*arguments)
    assert caught.value.message.startswith(message)


def test_errors_in_a_file_name_the_fields_of_requests(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "requests.json"
    file.write_text(json.dumps([{"volume": {"size": 1}}, {"volume": {"size": 0}}]))
    with pytest.raises(setup.UsageError, match=r"^--file: requests\[1\]: Invalid input for volume\.size: 0: "):
        run("what-if", "--file", str(file))
    with pytest.raises(setup.UsageError, match="name a SIZE or --file, not both"):
        run("what-if", "3", "--file", str(file))


def test_errors_of_the_scheduler_about_changes_name_the_option(asked: Asked) -> None:
    said = {
        "lost: there is no pool": "--lose: there is no pool",
        "ratios of h@b: 5 is none": "--ratio of h@b: 5 is none",
        "added: pool h@b#p is there": "--add: pool h@b#p is there",
        "reserved_percentage is 101: it takes": "--reserved is 101: it takes",
        "volume type 'lost' could not be found": "volume type 'lost' could not be found",
    }
    for told, shown in said.items():
        asked.error = errors.InvalidInput(told)
        with pytest.raises(errors.InvalidInput) as caught:
            run("what-if", "1")
        assert caught.value.message == shown
        assert not isinstance(caught.value, setup.UsageError)


def test_questions_of_what_if(asked: Asked) -> None:
    changes = ["--ratio", "3", "--ratio", "h@b=auto", "--reserved", "h@b#p=20", "--lose", "h@c", "--hint", "a=b=c"]
    run("what-if", "5", "--hint", "k=1", "--hint", "k=2", *changes)
    [question] = asked.questions
    assert question["requests"][0]["volume"]["scheduler_hints"] == {"k": ["1", "2"], "a": "b=c"}
    assert question["changes"] == {
        "default_ratio": 3.0,
        "ratios": {"h@b": "auto"},
        "reserved_percentages": {"h@b#p": 20.0},
        "lost": ["h@c"],
        "added": [],
    }


def test_questions_about_existing_volumes(asked: Asked) -> None:
    run("explain", "--migrate", "v", "--to", "h@b")
    run("explain", "--retype", "v", "--type", "gold", "--migration-policy", "on-demand")
    assert [question["requests"] for question in asked.questions] == [
        [{"migrate": {"volume_id": "v", "host": "h@b"}}],
        [{"retype": {"volume_id": "v", "new_type": "gold", "migration_policy": "on-demand"}}],
    ]


def test_one_suitable_node_of_several_is_enough(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    refused = Explanation("6 GiB", None, "No pool for 6 GiB (volume 2 of 2, all or none): 1 pool", ())
    ignored = ("the hint node_name has no effect",)
    placed = [
        Explanation("6 GiB", pool, "", (), ignored_hints=ignored, ignored_specs=("the spec",))
        for pool in ("h@b#p", "h@b#q")
    ]
    asked.outlooks = [SimulationResult(volumes=[refused]), SimulationResult(volumes=placed)]
    wanted = ["explain", "6", "--count", "2", "--hint", "storage_class=fast"]
    assert run(*wanted, "--node", "n1", "--node", "n2:zone=z2,rack=3") == 0
    shown = capsys.readouterr().out
    assert [line.split("|")[1].strip() for line in shown.splitlines() if "|" in line] == ["node", "n1", "n2", ""]
    assert "all or none): 1 pool" in shown
    assert shown.count("Note: the hint node_name has no effect\n") == shown.count("Note: the spec\n") == 1
    assert [each["volumes"][1]["scheduler_hints"] for each in asked.questions[0]["requests"]] == [
        {"storage_class": "fast", "node_name": "n1"},
        {
            "storage_class": "fast",
            "node_name": "n2",
            "accessibility_requirements": {"requisite": [{"segments": {"zone": "z2", "rack": "3"}}]},
        },
    ]
    assert (asked.questions[0]["apart"], asked.questions[0]["detail"]) == (True, False)
    run(*wanted, "--node", "n1", "--node", "n2", "--json")
    told = json.loads(capsys.readouterr().out)
    assert [(each["name"], len(each["explanations"])) for each in told["nodes"]] == [("n1", 1), ("n2", 2)]


def test_a_failed_weigher_is_distinguished_from_a_weight_of_zero(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = (Weight("CapacityWeigher", 0.0, 0.0, 1.0), Weight("OddWeigher", 0.0, 0.0, 0.0, "ValueError: boom"))
    verdicts = tuple(PoolVerdict(pool, weights=weights, total_weight=0.0) for pool in ("h@b#p", "h@b#q"))
    explanation = Explanation("1 GiB", "h@b#p", "1 GiB goes to h@b#p", verdicts)
    asked.outlooks = [SimulationResult(volumes=[explanation])]
    assert run("explain", "1") == 0
    printed = capsys.readouterr().out
    assert (printed.count("| 0 -> 0.000 x 1 "), printed.count("| failed ")) == (2, 2)
    assert printed.count("OddWeigher failed and counts 0 for every pool: ValueError: boom\n") == 1
