"""Scenes that go with captures: twins of real sets, and surrogate sets as another receiver would record them.

No part of a release: `rfgen.source_digest` leaves this room out, so that a twin can change and a release stay.
"""
