"""``python -m seqformats bench --like FILE``: operations on sequences as long as those of the user, beside others."""
