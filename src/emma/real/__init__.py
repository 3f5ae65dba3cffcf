"""Real captures: adapters from the layouts that others publish to canonical scenes, and the sim-to-real gap."""
