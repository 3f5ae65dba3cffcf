"""Textbook estimators as reference rows: each embeds a scene as the few statistics that a textbook would decide by.

They go through the same pinned readouts as every backbone, and never enter the ranking. None is trained.
"""
