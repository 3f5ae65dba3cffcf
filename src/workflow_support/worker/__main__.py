"""``python -m workflow_support.worker PROGRAMS LISTENER``: serve until standard input closes."""

import socket
import sys
from pathlib import Path

from workflow_support.worker.server import serve

serve(Path(sys.argv[1]).resolve(), socket.socket(fileno=int(sys.argv[2])))
