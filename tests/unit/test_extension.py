# SPDX-License-Identifier: Apache-2.0
"""The declaration of extensions: references, the installed ones, and the exceptions of their hooks."""

import logging

import pytest

from tonnage import extension
from tonnage.extension import Extension, Hook
from tonnage.ledger.db import schema


class _Hook(Hook):
    extension = "example"


@pytest.mark.parametrize(
    ("reference", "part"),
    [("tonnage.ledger.db.schema:sync", schema.sync), ("tonnage.ledger.db.schema", schema)],
)
def test_a_reference_names_an_object_in_a_module_or_the_module(reference: str, part: object) -> None:
    assert extension.load(reference) is part


def test_a_reference_that_leads_nowhere_is_an_error() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"tonnage\.nowhere"):
        extension.load("tonnage.nowhere:build")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        extension.load("tonnage.ledger.db.schema:nothing")


def test_a_declaration_has_a_summary_and_no_part_that_it_does_not_name() -> None:
    with pytest.raises(TypeError, match="summary"):
        Extension()  # type: ignore[call-arg]
    declaration = Extension(summary="an example")
    parts = {name: getattr(declaration, name) for name in Extension.__dataclass_fields__ if name != "summary"}
    assert {name for name, part in parts.items() if part} == set()


def test_a_declaration_is_the_same_for_all_who_read_it() -> None:
    declaration = Extension(summary="an example")
    with pytest.raises(AttributeError, match="cannot assign to field"):
        declaration.scheduler = "elsewhere:build"  # type: ignore[misc]
    assert Extension(summary="another").commands is not declaration.commands


def test_the_extensions_of_this_package_are_installed_and_in_alphabetical_order() -> None:
    names = extension.names_in_this_package()
    assert names == sorted(names)
    assert set(names) <= extension.installed().keys()
    assert {"cinder", "history", "page"} <= set(names)


def test_an_exception_is_attributed_to_the_extension_of_its_hook() -> None:
    with pytest.raises(LookupError) as raised, extension.attributed_to(_Hook()):
        raise LookupError("nothing")
    assert raised.value.__notes__ == ["raised by the extension 'example', which the option enabled_extensions names"]


def test_an_exception_of_a_hook_of_the_core_has_no_note() -> None:
    with pytest.raises(LookupError) as raised, extension.attributed_to(Hook()):
        raise LookupError("nothing")
    assert not hasattr(raised.value, "__notes__")


def test_a_failure_after_a_commit_is_logged_with_its_traceback_and_ends_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with extension.failures_logged(_Hook()):
        raise LookupError("nothing")
    [record] = caplog.records
    assert (record.levelno, record.getMessage()) == (
        logging.ERROR,
        "A hook of the extension 'example' failed after a commit",
    )
    assert "LookupError: nothing" in caplog.text


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_the_end_of_a_process_is_no_failure_of_a_hook(
    ending: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ending), extension.failures_logged(_Hook()):
        raise ending
    assert caplog.records == []


def test_a_hook_that_does_not_fail_leaves_no_trace(caplog: pytest.LogCaptureFixture) -> None:
    with extension.failures_logged(_Hook()), extension.attributed_to(_Hook()):
        pass
    assert caplog.records == []
