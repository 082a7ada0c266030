# SPDX-License-Identifier: Apache-2.0
"""The log of decisions, and its replay with other rules."""
