# SPDX-License-Identifier: Apache-2.0
"""The text format of Prometheus."""

import math

from prometheus_client import parser

from tonnage.api.monitoring.exposition import LabelCache, Page, all_in_bytes, labels


def test_a_parser_reads_the_page_as_it_was_written() -> None:
    names = ["plain", 'with "quotes"', "back\\slash", "two\nlines", "<script>", "naïve 🦕"]
    values = [0, 1.5, 2.0**60, math.nan, math.inf, -3]
    page = Page()
    page.add_gauge("one", "A gauge.", [(labels(pool=name), value) for name, value in zip(names, values, strict=True)])
    page.add_gauge("two", "Without labels.", [("", 7)])
    page.add_gauge("none", "Without series.", [])
    one, two = parser.text_string_to_metric_families(page.encode().decode())
    assert [sample.labels for sample in one.samples] == [{"pool": name} for name in names]
    assert [repr(float(sample.value)) for sample in one.samples] == [repr(float(value)) for value in values]
    assert [(sample.labels, sample.value) for sample in two.samples] == [({}, 7.0)]
    assert (one.type, one.documentation) == ("gauge", "A gauge.")


def test_labels_are_made_once_and_those_of_many_former_pools_are_forgotten() -> None:
    made: list[str] = []

    def make(name: str) -> str:
        made.append(name)
        return labels(pool=name)

    kept = LabelCache(make, 2)
    for names in ("ab", "ab", "c", "abc"):
        assert kept.of(names) == [labels(pool=name) for name in names]
    assert "".join(made) == "abcabc"


def test_capacities_are_whole_bytes() -> None:
    assert all_in_bytes([1.5, 0.1], math.inf) == [1.5 * 2**30, 107374182]
    assert all_in_bytes([1, None, math.inf], -math.inf) == [2**30, -math.inf, math.inf]
