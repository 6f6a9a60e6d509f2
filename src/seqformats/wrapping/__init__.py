"""Call a function that wants one layout with any; `wrap.py` has what users call."""
