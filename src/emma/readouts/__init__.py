"""Readouts: light heads, pinned by the TaskSpec, that are fit on frozen embeddings."""

from emma.readouts.heads import Discriminant, Logistic, Readout, RidgeAngle, load_readout, make_readout

__all__ = ["Discriminant", "Logistic", "Readout", "RidgeAngle", "load_readout", "make_readout"]
