"""Choosing by measurement: what was timed, and where."""
