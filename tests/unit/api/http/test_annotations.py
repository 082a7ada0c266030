# SPDX-License-Identifier: Apache-2.0
"""Annotations of the methods of resources."""

from tonnage.api.http import annotations
from tonnage.api.http.list_query import NO_PARAMETERS


def test_a_method_has_the_annotation_that_it_was_given() -> None:
    @annotations.operation({202: None}, bodies=(int,), errors=(409,))
    def on_post() -> None: ...

    operation = annotations.operation_of(on_post)
    assert operation is not None
    assert (operation.answers, operation.bodies, operation.errors) == ({202: None}, (int,), (409,))
    assert (operation.actions, operation.query, operation.names) == (None, NO_PARAMETERS, {})


def test_a_method_without_an_annotation_has_none() -> None:
    assert annotations.operation_of(lambda: None) is None
