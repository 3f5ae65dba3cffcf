"""As much of the Kubernetes API as Snakemake's executor asks for, with a process in a folder of its own for each pod.

It is no Kubernetes: images, limits, volumes and nodes are not looked at. What it shows is that the profile's jobs make
their results in a pod that has nothing but the sources and a bucket.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CONFIG = """apiVersion: v1
kind: Config
clusters: [{{name: here, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: me, user: {{}}}}]
contexts: [{{name: here, context: {{cluster: here, user: me}}}}]
current-context: here
"""


class Kubernetes(ThreadingHTTPServer):
    """Serves until ``close``; ``pods`` holds each job's description, ``config`` the file for KUBECONFIG."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.environment = folder, environment
        self.secrets: dict[str, dict[str, str]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.processes: dict[str, subprocess.Popen] = {}
        self.config = folder / "kubeconfig.yaml"
        self.config.write_text(CONFIG.format(port=self.server_address[1]))
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def start(self, job: dict[str, Any]) -> None:
        """Run a job's container in an empty folder, with the secrets that it names."""
        name = job["metadata"]["name"]
        container = self.pods[name] = job["spec"]["template"]["spec"]["containers"][0]
        place = self.folder / name
        place.mkdir()
        environment = self.environment | {"HOME": str(place)}
        for variable in container["env"]:
            told = variable["valueFrom"]["secretKeyRef"]
            environment[variable["name"]] = base64.b64decode(self.secrets[told["name"]][told["key"]]).decode()
        with (self.folder / f"{name}.log").open("wb") as log:
            command = [*container["command"], *container["args"]]
            self.processes[name] = subprocess.Popen(command, cwd=place, env=environment, stdout=log, stderr=log)

    def logs(self) -> str:
        """What all pods wrote."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("*.log")))

    def close(self) -> None:
        """End what still runs."""
        self.shutdown()
        self.server_close()
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()


class Handler(BaseHTTPRequestHandler):
    """The calls that the executor makes."""

    server: Kubernetes

    def answer(self, content: dict[str, Any], status: int = 200) -> None:
        """Send JSON."""
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> dict[str, Any]:
        """The request's JSON."""
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")

    def do_POST(self) -> None:
        """A secret, or a job."""
        told = self.body()
        if self.path.endswith("/secrets"):
            self.server.secrets[told["metadata"]["name"]] = told["data"]
        elif self.path.endswith("/jobs"):
            self.server.start(told)
        self.answer(told, 201)

    def do_GET(self) -> None:
        """Whether a job has ended; which pods a job has is not told, so that its own status counts."""
        job = re.search(r"/jobs/([^/]+)/status$", self.path)
        if job is None:
            self.answer({"kind": "PodList", "apiVersion": "v1", "items": []})
            return
        code = self.server.processes[job[1]].poll()
        ended = {} if code is None else {"failed" if code else "succeeded": 1}
        self.answer({"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": job[1]}, "status": ended})

    def do_DELETE(self) -> None:
        """A secret, or a job that has ended."""
        self.body()
        self.answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def image(folder: Path, python: str) -> dict[str, str]:
    """The environment of a pod: the interpreter, and a ``pip`` that finds all installed."""
    folder.mkdir()
    (folder / "pip").write_text("#!/bin/sh\n")
    (folder / "pip").chmod(0o755)
    return {"PATH": os.pathsep.join([str(folder), str(Path(python).parent), "/usr/bin:/bin"])}
