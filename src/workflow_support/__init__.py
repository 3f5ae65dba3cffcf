"""What only the workflow needs: its configuration, its plan, code identity, and the warm worker."""
