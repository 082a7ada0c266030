# SPDX-License-Identifier: Apache-2.0
"""Reading the configuration again while a process goes on: what SIGHUP does where something is scheduled."""

import contextlib
import logging
from collections.abc import Callable, Collection, Iterator, Mapping

from oslo_config import cfg

from tonnage.cli import setup, unknown_options
from tonnage.scheduler import settings
from tonnage.scheduler.service import SchedulerService

LOG = logging.getLogger(__name__)


class Reloading:
    """Takes over what is new in the files of ``conf``; ``read`` returns what they say now, as another configuration."""

    def __init__(self, conf: cfg.ConfigOpts, read: Callable[[], cfg.ConfigOpts]) -> None:
        self._conf = conf
        self._read = read

    def is_usable(self) -> bool:
        """Tell whether a scheduler could start with what the files say now, and log why it could not."""
        return _succeeds(lambda: settings.validate(self._read()))

    def apply(self, scheduler: SchedulerService) -> None:
        """Have the scheduler take over what can change, all of it or nothing, and log what cannot or need not."""
        if not _succeeds(lambda: scheduler.change(self._read())):
            return
        try:
            # Names what has changed, and in warnings what only a restart takes over.
            with _masked(_secrets(self._conf)):
                self._conf.mutate_config_files()
        except cfg.Error as error:  # they have changed again just now, and the next signal will tell
            LOG.warning("The configuration files have become unreadable: %s", setup.one_line(error))
        unknown_options.warn(self._conf)
        LOG.info("The configuration has been read again")


class _Masking(logging.Filter):
    """Puts stars in the place of secrets, which oslo.config logs like any other value that has changed."""

    def __init__(self, options: Collection[str]) -> None:
        super().__init__()
        self._options = options

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass."""
        if isinstance(record.args, Mapping) and record.args.get("option") in self._options:
            record.args = {**record.args, "old_val": "****", "new_val": "****"}
        return True


@contextlib.contextmanager
def _masked(options: Collection[str]) -> Iterator[None]:
    mask = _Masking(options)
    cfg.LOG.addFilter(mask)
    try:
        yield
    finally:
        cfg.LOG.removeFilter(mask)


def _secrets(conf: cfg.ConfigOpts) -> set[str]:
    """Return the names of secret options, in whichever section."""
    return {info["opt"].name for info, _ in conf._all_opt_infos() if info["opt"].secret}


def _succeeds(work: Callable[[], object]) -> bool:
    """Do it; tell whether it could be done, and log what is wrong with the configuration."""
    try:
        work()
    except setup.OF_OTHERS as error:
        problem = setup.one_line(error)
    except Exception:
        # Whatever a plugin does, the scheduler goes on with what it has.
        LOG.exception("The configuration could not be taken over")
        return False
    else:
        return True
    # Within the handler oslo.log would add the exception once more.
    LOG.error("The configuration stays as it was: %s", problem)
    return False
