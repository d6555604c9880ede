"""Files to batches: data sets by name or path, readers, and the loader of batches."""
