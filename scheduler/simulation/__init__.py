# SPDX-License-Identifier: Apache-2.0
"""Decisions without effect: explanation, what-if, views of pools."""
