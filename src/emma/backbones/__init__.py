"""Frozen backbones: what one is, how one is loaded, and those that ship."""
