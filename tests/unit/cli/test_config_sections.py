# SPDX-License-Identifier: Apache-2.0
"""The text of configuration files by section."""

from pathlib import Path

from oslo_config import cfg

from tonnage.cli import config_sections


def configuration(*arguments: str) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    conf(arguments, project="tonnage", default_config_files=[], default_config_dirs=[])
    return conf


def test_a_file_is_read_with_sections_that_nothing_has_registered(tmp_path: Path) -> None:
    file = tmp_path / "a.conf"
    file.write_text("[DEFAULT]\nmoon = 1\n[ssd:gold]\nmoon = 2\nsun = x\n", encoding="utf-8")
    assert config_sections.of_file(str(file)) == {
        "DEFAULT": {"moon": ["1"]},
        "ssd:gold": {"moon": ["2"], "sun": ["x"]},
    }


def test_an_unreadable_file_has_no_sections(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no section\n", encoding="utf-8")
    (tmp_path / "bytes").write_bytes(b"[DEFAULT]\na = \xff\n")
    for name in ("text", "bytes", "absent"):
        assert config_sections.of_file(str(tmp_path / name)) == {}


def test_later_files_override_earlier_ones(tmp_path: Path) -> None:
    folder = tmp_path / "conf.d"
    folder.mkdir()
    first, second, third = tmp_path / "a.conf", folder / "1.conf", folder / "2.conf"
    first.write_text("[DEFAULT]\na = 1\nb = 1\nc = 1\n", encoding="utf-8")
    second.write_text("[DEFAULT]\nb = 2\nc = 2\n[ssd]\na = 2\n", encoding="utf-8")
    third.write_text("[DEFAULT]\nc = 3\n", encoding="utf-8")
    (folder / "4.txt").write_text("[DEFAULT]\nc = 4\n", encoding="utf-8")
    conf = configuration("--config-file", str(first), "--config-dir", str(folder))
    assert config_sections.files(conf) == [str(first), str(second), str(third)]
    assert config_sections.of_all(conf) == {"DEFAULT": {"a": ["1"], "b": ["2"], "c": ["3"]}, "ssd": {"a": ["2"]}}
