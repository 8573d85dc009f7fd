"""The built-in networks, one module each with its tensors, their roles and the forward pass; and custom networks."""
