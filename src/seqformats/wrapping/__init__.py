"""How a function that wants one layout is called with any; `wrap.py` has the doors."""
