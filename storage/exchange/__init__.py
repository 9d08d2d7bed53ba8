"""Moving memories in and out: our own formats, and readers of other systems' exports."""
