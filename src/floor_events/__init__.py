"""EasyCom competing-risk floor events: the count of false wearer entries and false yields of turn-taking models."""

from floor_events.converter import align, convert
from floor_events.evaluation import Evaluation, evaluate, output_files
from floor_events.events import find_candidates, score_candidates
from floor_events.protocol import Protocol, Run
from floor_events.thresholds import average_precision, select_threshold
