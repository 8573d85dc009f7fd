"""How systems are solved: step by step, by one contour integral, or on panels of collocation."""
