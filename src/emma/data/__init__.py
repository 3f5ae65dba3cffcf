"""Frozen data: scenes, tables, the release manifest, folds and their guards, embeddings."""
