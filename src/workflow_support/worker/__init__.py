"""A warm worker: one process that imports what a run's programs share, and forks once for each job.

Most of a short job is the start of an interpreter and its imports. The workflow starts a worker with a run and names
its socket in the environment; ``scripts/run.py`` hands it a program's options, folder, environment and standard
streams, and ends with the program's status. Every job is a fork of its own, so that none sees what another did. Where
no worker answers, ``run.py`` starts an interpreter as ever; the results are the same bytes.

What a job cannot tell from the worker: the limits, mask of files and priority of the run; the state that imports left,
numpy's global generator among it; warnings that an import gave. A program that is edited is the one that the run first
met. Stopping a run (SIGSTOP, Ctrl-Z) does not stop its jobs, and stopping the worker holds the jobs that ask it.
"""

from workflow_support.worker.start import SOCKET, start_worker

__all__ = ["SOCKET", "start_worker"]
