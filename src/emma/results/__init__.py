"""From folds to the leaderboard: typed records, aggregation, ranking, and the Evaluator."""
