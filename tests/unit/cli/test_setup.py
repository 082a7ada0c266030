# SPDX-License-Identifier: Apache-2.0
"""Tests of the set-up of processes."""

import pathlib
import signal
import subprocess
import sys

import pytest
from oslo_config import cfg

from tonnage.agent import options as agent_options
from tonnage.capacity import errors
from tonnage.cli import setup

PROGRAM = """
import logging
import sys

from oslo_config import cfg

from tonnage.agent import options
from tonnage.capacity import errors
from tonnage.cli import setup
from tonnage.rpc import options as rpc_options


@setup.clean_exit("tonnage-test")
def main():
    setup.configure(
        cfg.CONF, sys.argv[1:], "tonnage-test", [options.register, rpc_options.register], {"state_path": "/elsewhere"}
    )
    print(cfg.CONF.state_path, cfg.CONF.rpc_response_timeout)
    logging.getLogger("tonnage.test").info("for the log")
    logging.getLogger("stevedore.named").warning("noise")
    library = logging.getLogger("oslo.messaging._drivers.impl_rabbit")
    library.error("Failed to publish message: Basic.publish: (404) NOT_FOUND - no exchange 'noise' in vhost '/'")
    library.error("%s is unreachable", "the server")
    try:
        raise errors.DriverError("No such file: '/srv/a'")
    except errors.DriverError as error:
        logging.getLogger("tonnage.test").warning("could not report: %s", error)
        logging.getLogger("tonnage.test").warning("could not report")
        logging.getLogger("tonnage.test").warning("with traceback: %s", error, exc_info=True)


main()
"""


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "tonnage.conf"


def test_values_of_the_file_precede_the_defaults_and_logs_go_to_standard_error(file: pathlib.Path) -> None:
    file.write_text("[DEFAULT]\nrpc_response_timeout = 7\n")
    done = run("--config-file", str(file))
    assert (done.returncode, done.stdout) == (0, "/elsewhere 7\n")
    assert "INFO tonnage.test [-] for the log" in done.stderr
    assert "noise" not in done.stderr
    assert "the server is unreachable" in done.stderr
    assert "Eventlet" not in done.stderr


def test_a_warning_tells_the_handled_error_once(file: pathlib.Path) -> None:
    file.touch()
    lines = [
        line.partition("[-] ")[2] for line in run("--config-file", str(file)).stderr.splitlines() if "WARN" in line
    ]
    error = "No such file: '/srv/a'"
    assert lines == [
        f"could not report: {error}",
        f"could not report: tonnage.capacity.errors.DriverError: {error}",
        f"with traceback: {error}",
    ]


def test_log_lines_go_to_the_log_file(file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file.write_text(f"[DEFAULT]\nlog_file = {tmp_path / 'log'}\n")
    done = run("--config-file", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert "for the log" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[DEFAULT]\nbackend_threads = 0",
            "[DEFAULT] backend_threads = 0 in {file}: it takes a whole number of at least 1",
        ),
        ("[DEFAULT]\nhost = a@b", "[DEFAULT] host = a@b in {file}: a@b is not a valid host address"),
        ("nonsense", "Failed to parse {file}: at {file}:1, No ':' or '=' found in assignment: 'nonsense'"),
    ],
)
def test_an_invalid_value_is_reported_on_one_line(file: pathlib.Path, text: str, message: str) -> None:
    file.write_text(text)
    done = run("--config-file", str(file))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"tonnage-test: {message.format(file=file)}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"backend_stats_polling_interval = {10**400}", "it takes a whole number from 1 to 604800"),
        (f"backend_threads = {2**31}", "it takes a finite number of at most 2147483647"),
        ("metric = nan", "it takes a finite number of at most 2147483647"),
        ("metric = inf", "it takes a finite number of at most 2147483647"),
    ],
)
def test_a_number_out_of_bounds_is_refused_when_the_files_are_read_again(
    file: pathlib.Path, text: str, message: str
) -> None:
    def register(conf: cfg.ConfigOpts) -> None:
        agent_options.register(conf)
        conf.register_opt(cfg.FloatOpt("metric", min=0))

    conf, argv = cfg.ConfigOpts(), ["--config-file", str(file)]
    file.write_text("[DEFAULT]\n")
    setup.configure(conf, argv, "tonnage-test", [register])
    file.write_text(f"[DEFAULT]\n{text}\n")
    with pytest.raises(errors.ConfigurationError, match=message):
        setup.read_again(conf, argv, [register])


def test_a_missing_file_is_reported_on_one_line() -> None:
    done = run("--config-file", "/nonexistent/tonnage.conf")
    assert done.returncode == 1
    assert done.stderr == "tonnage-test: Failed to find some config files: /nonexistent/tonnage.conf\n"


def test_the_version() -> None:
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("tonnage-test 0.")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (errors.ConfigurationError("[a] path: no such\nfolder"), "p: [a] path: no such folder\n"),
        (cfg.RequiredOptError("x"), "p: value required for option x in group [DEFAULT]\n"),
        (OSError(28, "No space left on device", "/var/x"), "p: [Errno 28] No space left on device: '/var/x'\n"),
    ],
)
def test_errors_of_the_environment_are_one_line_and_status_1(
    error: Exception, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended, setup.clean_exit("p"):
        raise error
    assert ended.value.code == 1
    assert capsys.readouterr().err == line


def test_bugs_are_raised() -> None:
    with pytest.raises(ZeroDivisionError), setup.clean_exit("p"):
        raise ZeroDivisionError
    with pytest.raises(ModuleNotFoundError), setup.clean_exit("p"):
        raise ModuleNotFoundError("No module named 'odd'", name="odd")


def test_a_missing_library_is_one_line_with_the_extra_that_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, setup.clean_exit("p", 3):
        raise ModuleNotFoundError("No module named 'falcon'", name="falcon")
    [line] = capsys.readouterr().err.splitlines()
    assert ended.value.code == 3
    assert line.startswith("p: the library falcon is not installed; install it with: ")
    assert "[api]'" in line


def test_reading_files_again_does_not_change_the_configuration(file: pathlib.Path) -> None:
    def register(conf: cfg.ConfigOpts) -> None:
        conf.register_opts([cfg.IntOpt("size", default=1), cfg.StrOpt("color", default="red")])

    file.write_text("[DEFAULT]\nsize = 2\n")
    conf, argv = cfg.ConfigOpts(), ["--config-file", str(file)]
    register(conf)
    conf(argv, project=setup.PROJECT, prog="tonnage-test")
    file.write_text("[DEFAULT]\nsize = 3\n")
    fresh = setup.read_again(conf, argv, [register], {"color": "blue"})
    assert (fresh.size, fresh.color, conf.size, conf.color) == (3, "blue", 2, "red")
    file.write_text("[DEFAULT]\nsize = large\n")
    with pytest.raises(
        errors.ConfigurationError, match=rf"^\[DEFAULT\] size = large in {file}: it takes a whole number$"
    ):
        setup.read_again(conf, argv, [register])
    file.unlink()
    with pytest.raises(cfg.ConfigFilesNotFoundError):
        setup.read_again(conf, argv, [register])


def test_a_default_file_that_has_been_deleted_is_an_error(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "found.conf"
    file.write_text("[DEFAULT]\n")
    conf = cfg.ConfigOpts()
    conf([], project=setup.PROJECT, prog="tonnage-test", default_config_files=[str(file)])
    setup.read_again(conf, [])
    file.unlink()
    with pytest.raises(cfg.ConfigFilesNotFoundError):
        setup.read_again(conf, [])


def test_a_wrong_command_line_has_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, setup.clean_exit("p"):
        raise setup.UsageError("name a SIZE")
    assert (ended.value.code, capsys.readouterr().err) == (2, "p: name a SIZE\n")


def test_errors_without_a_configuration_file_name_the_searched_folders(tmp_path: pathlib.Path) -> None:
    if cfg.find_config_files("tonnage", "tonnage-manage"):
        pytest.skip("this machine has a configuration of Tonnage")
    unset = "tonnage-manage: option [database] connection is not set: it takes the URL of the ledger's database"

    def check() -> str:
        command = [pathlib.Path(sys.executable).with_name("tonnage-manage"), "db", "check"]
        env = {"HOME": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=env, cwd=tmp_path)
        assert done.returncode == 1
        return done.stderr

    unread = (
        f"{unset}; no configuration file was read: there is no tonnage.conf or tonnage-manage.conf in ~/.tonnage, ~, "
        "/etc/tonnage or /etc, and --config-file names none"
    )
    assert check() == f"{unread}\n"
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "tonnage-standalone.conf").touch()
    assert check() == f"{unread}; 'make run' uses --config-file etc/tonnage-standalone.conf\n"
    file = tmp_path / ".tonnage" / "tonnage.conf"
    file.parent.mkdir()
    file.write_text("[database]\nconnection =\n")
    assert check() == f"{unset}\n"


def test_a_crash_in_a_native_library_prints_a_traceback(file: pathlib.Path) -> None:
    file.write_text("")
    broken = PROGRAM.replace("    print(", "    import ctypes\n    ctypes.string_at(0)\n    print(")
    done = subprocess.run(
        [sys.executable, "-c", broken, "--config-file", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert "in main" in done.stderr


@pytest.mark.parametrize(
    ("program", "daemon"), [("tonnage", False), ("tonnage-status", False), ("tonnage-agent", True)]
)
def test_only_daemons_take_the_options_of_the_log_as_arguments(program: str, daemon: bool) -> None:
    command = [pathlib.Path(sys.executable).with_name(program), "--help"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "--debug" in told
    assert ("--log-file" in told) is daemon
