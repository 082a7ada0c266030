# SPDX-License-Identifier: Apache-2.0
"""The web page for operators: its files, and the REST resources with the figures that it shows."""
