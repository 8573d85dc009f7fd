"""Checked arguments, files, counter-based random numbers, Ctrl-C and the version: shared by all subpackages."""
