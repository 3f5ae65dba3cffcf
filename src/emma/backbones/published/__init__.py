"""Networks that others published: our own code of each, and how its published file becomes weights of this project."""
