"""What a stranger checks: finished results, archives, submitted predictions, a backbone before its run."""
