# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage sample-config``."""

import pathlib
import sys

import pytest

from tests.unit.cli import command_runs
from tonnage.capacity import errors
from tonnage.cli import manage

ETC = pathlib.Path(__file__).parents[4] / "etc"


def write(folder: pathlib.Path) -> int:
    return command_runs.run(manage.program(), ["sample-config", str(folder)], None)


def paths(folder: pathlib.Path) -> set[pathlib.Path]:
    files = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {path for path in files if path.suffix not in {".py", ".pyc"}}


def test_all_files_are_written_again_and_again(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "folder"
    for _ in range(2):
        assert write(folder) == 0
        assert set(map(pathlib.Path, capsys.readouterr().out.splitlines())) == {folder / path for path in paths(ETC)}
    assert paths(folder) == paths(ETC)
    for path in ("tonnage.conf.sample", "prometheus/tonnage.rules.yml", "grafana/tonnage.json"):
        assert (folder / path).read_bytes() == (ETC / path).read_bytes()


def test_units_start_the_programs_of_this_installation(tmp_path: pathlib.Path) -> None:
    write(tmp_path)
    unit = (tmp_path / "systemd" / "tonnage-standalone.service").read_text()
    programs = pathlib.Path(sys.executable).parent
    assert f"\nExecStartPre={programs}/tonnage-manage --config-file" in unit
    assert f"\nExecStart={programs}/tonnage-standalone --config-file" in unit
    assert "=/opt/tonnage" not in unit


def test_a_changed_file_is_not_replaced_and_nothing_is_written(tmp_path: pathlib.Path) -> None:
    own = tmp_path / "policy.yaml.sample"
    own.write_text("mine")
    with pytest.raises(errors.ConfigurationError, match=r"policy\.yaml\.sample: there with another content"):
        write(tmp_path)
    assert (own.read_text(), paths(tmp_path)) == ("mine", {pathlib.Path(own.name)})


def test_an_error_of_the_file_system_is_one_line(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(errors.ConfigurationError, match="cannot be written"):
        write(tmp_path / "file" / "folder")
