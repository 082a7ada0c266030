# SPDX-License-Identifier: Apache-2.0
"""Metrics of a process, for Prometheus."""
