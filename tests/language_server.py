"""What an editor is told by basedpyright's language server, which is Pylance's engine: names to complete with."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

HANGS = 300  # seconds, far above what it takes
PROGRAM = shutil.which("basedpyright-langserver", path=str(Path(sys.executable).parent))


class Server:
    """A language server that speaks over its standard streams."""

    def __init__(self, folder, **environment):
        command = [PROGRAM, "--stdio"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=folder, env=os.environ | environment)
        self.late = threading.Timer(HANGS, self.process.kill)  # what waits for an answer then fails
        self.late.start()
        self.folder, self.asked, self.opened = folder, 0, 0
        about = {
            "processId": os.getpid(),
            "rootUri": folder.as_uri(),
            "capabilities": {"workspace": {"configuration": True}},
        }
        self.ask("initialize", about)
        self.send("initialized", {})

    def write(self, **message):
        content = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(content) + content)
        self.process.stdin.flush()

    def read(self):
        size = 0
        while line := self.process.stdout.readline().strip():
            name, _, value = line.partition(b": ")
            size = int(value) if name == b"Content-Length" else size
        assert size, "the server has ended"
        return json.loads(self.process.stdout.read(size))

    def send(self, method, params):
        self.write(method=method, params=params)

    def ask(self, method, params):
        """The answer; what the server asks meanwhile gets one too."""
        self.asked += 1
        self.write(id=self.asked, method=method, params=params)
        while True:
            message = self.read()
            if "method" in message and "id" in message:
                settings = [{"pythonPath": sys.executable} for _ in message["params"].get("items", ())]
                self.write(
                    id=message["id"], result=settings if message["method"] == "workspace/configuration" else None
                )
            elif message.get("id") == self.asked:
                return message["result"]

    def completions(self, code):
        """The labels for what is being typed at the end of the code."""
        self.opened += 1
        uri = (self.folder / f"probe{self.opened}.py").as_uri()
        document = {"uri": uri, "languageId": "python", "version": 1, "text": code + ")\n"}
        self.send("textDocument/didOpen", {"textDocument": document})
        lines = code.splitlines()
        place = {"line": len(lines) - 1, "character": len(lines[-1])}
        found = self.ask("textDocument/completion", {"textDocument": {"uri": uri}, "position": place})
        return {item["label"] for item in found["items"]}


@contextlib.contextmanager
def language_server(folder, **environment):
    """A server that ends with the block."""
    server = Server(folder, **environment)
    try:
        yield server
    finally:
        server.late.cancel()
        server.process.kill()
        server.process.communicate()
