"""JAX: encodings in its transforms, and operations as gathers from plans made on the host."""
