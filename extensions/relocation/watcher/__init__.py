# SPDX-License-Identifier: Apache-2.0
"""The part of OpenStack Watcher: a strategy with our plans."""
