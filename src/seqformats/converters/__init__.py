"""Every conversion: the public function, what each target wants, the way back, nested lists."""
