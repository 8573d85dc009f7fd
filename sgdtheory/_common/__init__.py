"""What every wing needs: checked arguments, files, counter-based random numbers, Ctrl-C, the version."""
