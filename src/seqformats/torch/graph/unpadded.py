"""Hooks of models without padding, which the compiler leaves alone; loaded behind them."""

import sys

from . import functions_in, leave_alone

for _name, _module in list(sys.modules.items()):
    if _name.startswith("seqformats.hf.unpadded"):
        for _found in list(vars(_module).values()):
            for _function in functions_in(_found):
                if _function.__module__ == _name:
                    leave_alone(_function)
