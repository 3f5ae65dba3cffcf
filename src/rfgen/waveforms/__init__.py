"""Waveforms as plain functions of a random generator; each returns complex128 samples of about unit power while on."""
