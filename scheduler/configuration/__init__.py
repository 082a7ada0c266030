# SPDX-License-Identifier: Apache-2.0
"""Options, settings and the loaded filters and weighers."""
