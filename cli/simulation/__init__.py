# SPDX-License-Identifier: Apache-2.0
"""Commands that explain, simulate and replay decisions, and their queries to schedulers."""
