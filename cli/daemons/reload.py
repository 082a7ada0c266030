# SPDX-License-Identifier: Apache-2.0
"""Reading the configuration files again at run time, after SIGHUP: the steps of all daemons."""

import logging
from collections.abc import Callable
from typing import TypeVar

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.cli import output, setup, unknown_options

LOG = logging.getLogger(__name__)

T = TypeVar("T")


def confirm(conf: cfg.ConfigOpts) -> None:
    """Log that a configuration is in use, and a warning for each of its options that does not exist."""
    unknown_options.warn(conf)
    LOG.info("The configuration has been read again")


def attempt(work: Callable[[], T]) -> T | None:
    """Return the result of ``work``, which reads configuration files. Return None after an error, which is logged."""
    try:
        return work()
    except errors.MissingPlugin as error:
        problem = f"{error.message}; restart this process if the package was installed after its start"
    except setup.EXPECTED_ERRORS as error:
        problem = output.one_line(error)
    except Exception:
        # The process keeps its configuration after any error of a plug-in.
        LOG.exception("The configuration could not be taken over")
        return None
    # Inside the exception handler oslo.log would log the exception again.
    LOG.error("The configuration stays as it was: %s", problem)
    return None
