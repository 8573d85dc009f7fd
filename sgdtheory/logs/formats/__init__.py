"""Formats of training logs, one a file."""
