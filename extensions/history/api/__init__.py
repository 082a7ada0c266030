# SPDX-License-Identifier: Apache-2.0
"""REST resources, bodies and metrics of the history and of forecasts."""
