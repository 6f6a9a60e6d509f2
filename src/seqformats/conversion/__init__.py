"""Every conversion: the door, what each target wants, the way back, nested lists."""
