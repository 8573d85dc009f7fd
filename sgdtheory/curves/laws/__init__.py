"""Laws of loss curves, one file each."""
