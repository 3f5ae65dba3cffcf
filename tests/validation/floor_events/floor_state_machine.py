"""A second implementation of the floor-event protocol: one row after another, plain Python, nothing of the product.

A candidate opens at its anchor with one clock per horizon. Every later row either is the competing boundary, which
closes all clocks, or is a row of the window, which is pooled and may bring the outcome. A clock that reaches its
horizon closes; one still open when the recording ends is kept if the outcome was seen and is censored otherwise.
"""


class Clock:
    def __init__(self, horizon):
        self.horizon, self.age = horizon, 0
        self.open, self.outcome, self.ran_out = True, False, False
        self.window = []

    def row(self, t, wearer_changed):
        if not self.open:
            return
        self.age += 1
        self.window.append((t, self.age - 1))
        if wearer_changed:
            self.outcome = True
        if self.age == self.horizon:
            self.open = False

    def compete(self):
        self.open = False

    def end_of_recording(self):
        self.ran_out = self.open


class Candidate:
    def __init__(self, head, anchor, wearer_at_source, resolved, limit):
        self.head, self.anchor, self.wearer, self.resolved, self.limit = head, anchor, wearer_at_source, resolved, limit
        self.clocks = [Clock(h) for h in range(1, 11)]
        self.wearer_moved, self.competed, self.short = False, False, False

    def row(self, t, others_changed, wearer_now):
        if self.competed:
            return
        if others_changed:
            self.competed = True
            self.short = self.head == "response" and not self.wearer_moved and t - self.anchor <= self.limit
            for clock in self.clocks:
                clock.compete()
            return
        changed = wearer_now != self.wearer
        self.wearer_moved = self.wearer_moved or changed
        for clock in self.clocks:
            clock.row(t, changed)

    def result(self, scores, valid):
        found = []
        for clock in self.clocks:
            cells = [(bool(valid[t][k]), float(scores[t][k][1])) for t, k in clock.window]
            if self.resolved:
                found.append(("resolved_at_source", None))
            elif clock.ran_out and not clock.outcome:
                found.append(("censored", None))
            elif not cells:
                found.append(("empty_window", None))
            elif not all(ok for ok, _ in cells):
                found.append(("invalid", None))
            else:
                pooled = max(p if self.head == "response" else 1.0 - p for _, p in cells)
                found.append(("positive" if clock.outcome else "negative", pooled))
        return found


def walk(target, cuts, post, limit):
    """All candidates of a session in anchor order, by walking its rows once."""
    others, wearer = [int(row[2]) for row in target], [int(row[1]) for row in target]
    done, alive = [], []
    for t in range(len(target)):
        if t == 0 or t in cuts:
            for candidate in alive:
                for clock in candidate.clocks:
                    clock.end_of_recording()
            alive = []
            continue
        changed = others[t] != others[t - 1]
        for candidate in alive:
            candidate.row(t, changed, wearer[t])
        if changed:
            head = "response" if others[t] == 0 else "yield"
            if wearer[t - 1] == (0 if head == "response" else 1):
                moved = wearer[t] != wearer[t - 1]
                candidate = Candidate(head, t, wearer[t - 1], post and moved, limit)
                if not post:
                    candidate.row(t, False, wearer[t])
                candidate.wearer_moved = moved
                done.append(candidate)
                alive.append(candidate)
    for candidate in alive:
        for clock in candidate.clocks:
            clock.end_of_recording()
    return done


def pick_threshold(positives, recall):
    """The largest of the positives' scores that enough of them reach, tried one by one."""
    for value in sorted(positives, reverse=True):
        reached = sum(1 for score in positives if score >= value)
        if reached >= recall * len(positives) - 1e-9:
            return value
    return None


def precision_average(scored):
    """Average precision of (score, is_positive) pairs: each distinct score is one step."""
    total = sum(1 for _, positive in scored if positive)
    if total == 0:
        return None
    average, before = 0.0, 0
    for value in sorted({score for score, _ in scored}, reverse=True):
        above = [positive for score, positive in scored if score >= value]
        average += (sum(above) - before) / total * (sum(above) / len(above))
        before = sum(above)
    return average


def table(evaluation, calibration, recalls, horizon):
    """One row of the events table, from lists of (candidate, result) over the pooled sessions."""

    def of(events, head, status, short=False):
        chosen = [(c, r[horizon - 1]) for c, r in events if c.head == head and (c.short or not short)]
        return [score for _, (found, score) in chosen if found == status]

    row = {}
    names = {"response": ("response", "no_response"), "yield": ("yield", "continue")}
    for head, (positive, negative) in names.items():
        row[f"{positive}_count"] = len(of(evaluation, head, "positive"))
        row[f"{negative}_count"] = len(of(evaluation, head, "negative"))
        for omitted in ("censored", "invalid", "empty_window", "resolved_at_source"):
            row[f"{head}_{omitted}_count"] = len(of(evaluation, head, omitted))
        pairs = [(s, True) for s in of(evaluation, head, "positive")]
        pairs += [(s, False) for s in of(evaluation, head, "negative")]
        row[f"{head}_ap"] = precision_average(pairs)
    row["short_resume_count"] = len(of(evaluation, "response", "negative", short=True))
    for recall in recalls:
        for head, groups in (
            ("response", (("no_response_trigger", False), ("short_resume_trigger", True))),
            ("yield", (("continue_false_stop", False),)),
        ):
            threshold = pick_threshold(of(calibration, head, "positive"), recall)
            row[f"{head}_threshold_at_recall_{recall:g}"] = threshold
            for name, events in ((f"calibration_{head}", calibration), (head, evaluation)):
                scores = of(events, head, "positive")
                defined = threshold is not None and scores
                found = sum(s >= threshold for s in scores) / len(scores) if defined else None
                row[f"{name}_recall_{recall:g}"] = found
            for name, short in groups:
                scores = of(evaluation, head, "negative", short=short)
                count = None if threshold is None else sum(s >= threshold for s in scores)
                row[f"{name}_count_at_recall_{recall:g}"] = count
                row[f"{name}_rate_at_recall_{recall:g}"] = count / len(scores) if scores and count is not None else None
    return row
