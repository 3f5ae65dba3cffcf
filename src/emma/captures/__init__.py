"""Captured scenes: adapters of public layouts, what a set declares, and the sim-to-real gap."""
