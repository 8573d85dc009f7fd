"""The built-in networks, one module each: tensors with their roles, and what they compute; and one of your own."""
