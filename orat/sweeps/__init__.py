"""More than one run: in parallel, and searched over."""
