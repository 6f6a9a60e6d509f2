"""Gradients: what an operation is, the rules of the conversions, and `vjp`."""
