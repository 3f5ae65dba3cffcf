"""One fold after another: fit and predict it, score it, and say how sure the score is."""
