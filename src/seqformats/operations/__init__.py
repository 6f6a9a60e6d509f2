"""The public operations, a family per file, and what they share."""
