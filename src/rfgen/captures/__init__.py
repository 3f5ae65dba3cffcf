"""Scenes that go with captures: matched synthetic sets, and surrogates as another receiver would record them.

No part of a release: `rfgen.source_digest` leaves this room out, so that a twin can change and a release stay.
"""
