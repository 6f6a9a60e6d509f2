"""Models of transformers over one row of all tokens of a batch, without padding."""
