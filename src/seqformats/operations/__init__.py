"""The public operations, a family a file, and what they share."""
