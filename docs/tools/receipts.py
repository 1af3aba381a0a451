"""Plays the journey of `docs/how-to/receipts.md`, and prints what its commands print, part by part.

`python docs/tools/receipts.py` makes the small checkpoint of `serve.md` in a folder of its own, and
serves, asks, checks, challenges and pays as the page says, by the page's own `ask.py`. It takes
some minutes, and the ports 8000 and 8001.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "how-to"
PATIENCE_S = 900.0
PARTIES = ("provider", "liar", "watcher")
LIE = "wrong-token:token=1"
READY = "ready; the "
SERVE = "moot serve --model checkpoint"


class Journey:
    """Commands in a folder, those that go on among them, and what they print.

    Args:
        folder: where they run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        found = [str(Path(sys.executable).parent), os.environ["PATH"]]
        self._environment = {**os.environ, "PATH": os.pathsep.join(found)}

    def run(self, command: str, status: int = 0) -> str:
        """Run a command to its end, and return what it prints."""
        done = subprocess.run(  # noqa: S603 - the page's own commands
            ["/bin/bash", "-c", command],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self._environment,
            check=False,
        )
        if done.returncode != status:
            raise RuntimeError(f"{command}: ends with {done.returncode}: {done.stderr}")
        return done.stdout + done.stderr

    def show(self, command: str, status: int = 0) -> str:
        """Run a command as `run` does, print both, and return what it prints."""
        printed = self.run(command, status)
        print(f"$ {command}", *(line.rstrip() for line in printed.splitlines()), sep="\n")
        if status:
            print("$ echo $?", status, sep="\n")
        return printed

    def start(self, name: str, command: str, until: str) -> None:
        """Start a command that goes on, and wait until it prints something."""
        with (self.folder / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(  # noqa: S603 - the page's own commands
                ["/bin/bash", "-c", f"exec {command}"],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=self._environment,
            )
        self.wait(name, until)

    def wait(self, name: str, until: str) -> None:
        """Wait until a command has printed something."""
        ends = time.monotonic() + PATIENCE_S
        while until not in self.read(name):
            if self.running[name].poll() is not None or time.monotonic() > ends:
                raise RuntimeError(f"{name} does not say {until!r}: {self.read(name)}")
            time.sleep(0.2)

    def read(self, name: str) -> str:
        """Return what a command that goes on has printed."""
        return (self.folder / f"{name}.log").read_text()

    def stop(self, name: str) -> None:
        """End a command that goes on."""
        process = self.running.pop(name)
        process.send_signal(signal.SIGTERM)
        process.wait()


def take_script(page: str, first: str) -> str:
    """Return the block of Python of a page that begins with a line."""
    blocks = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
    (found,) = [block for block in blocks if block.startswith(first)]
    return str(found)


def begin(part: str) -> None:
    """Begin a part of what is printed."""
    print(f"== {part}")


def show_testnet(journey: Journey) -> None:
    """Show the net that plays all of it by itself."""
    begin("testnet")
    journey.start("whole", "moot testnet up --serve checkpoint", READY)
    print(journey.read("whole"), end="")
    journey.stop("whole")


def make_net(journey: Journey) -> dict[str, str]:
    """Begin a net with a service; return the addresses of its parties."""
    begin("net")
    journey.start("net", "moot testnet up --providers 0 --folder net", READY)
    for party in PARTIES:
        journey.run(f"moot testnet add {party} --folder net")
    deployed = journey.show("moot service deploy --config net/client.toml")
    service = deployed.split()[3].rstrip(",")
    names = f"{{client,{','.join(PARTIES)}}}"
    journey.show(f"for it in net/{names}.toml; do echo 'service = \"{service}\"' >> $it; done")
    show = {"provider": journey.show, "client": journey.show, "liar": journey.run}
    return {it: how(f"moot keys address net/{it}.json").strip() for it, how in show.items()}


def show_honest(journey: Journey, provider: str, client: str) -> None:
    """Show a provider, a client that checks its answer, and how it is paid."""
    begin("provider")
    journey.show("moot service stake 2 --config net/provider.toml")
    own = "--config net/provider.toml --receipts receipts"
    journey.start("serve", f"{SERVE} {own} --token-price-wei 1000000000000", "/v1")
    print(journey.read("serve"), end="")
    begin("client")
    journey.show(f"python ask.py 8000 {client} answer.json")
    journey.show("moot receipt check answer.json --model copy --config net/client.toml")
    begin("pay")
    journey.show(f"moot service fund {provider} 0.1 --config net/client.toml")
    journey.show(f"moot service voucher {provider} 0.01 --config net/client.toml > voucher.json")
    journey.show("moot service redeem voucher.json --config net/provider.toml")
    journey.show(f"moot service show {provider} --client {client} --config net/client.toml")
    journey.show("moot service publish receipts --config net/provider.toml")


def show_lie(journey: Journey, liar: str, client: str) -> None:
    """Show a provider that lies, and how it loses a bond."""
    begin("liar")
    own = f"--config net/liar.toml --receipts lies --cheat {LIE}"
    journey.run("moot service stake 2 --config net/liar.toml")
    journey.start("liar", f"{SERVE} {own} --port 8001", "/v1")
    journey.start("defend", f"moot receipt defend --model checkpoint {own}", "are defended")
    journey.show(f"python ask.py 8001 {client} lie.json")
    journey.show("moot receipt check lie.json --model copy --config net/client.toml", 3)
    begin("challenge")
    journey.show("moot receipt challenge lie.json --model copy --config net/watcher.toml")
    begin("defend")
    journey.wait("defend", "is over")
    print(journey.read("defend"), end="")
    journey.show(f"moot service show {liar} --config net/client.toml")


def show_watcher(journey: Journey, client: str) -> None:
    """Show a watcher that is handed an honest answer and a lie."""
    begin("watch")
    journey.run("mkdir inbox")
    watch = "moot receipt watch inbox --model copy --config net/watcher.toml"
    journey.start("watch", watch, "are watched")
    for port, name in ((8000, "one.json"), (8001, "two.json")):
        journey.run(f"python ask.py {port} {client} draft && mv draft inbox/{name}")
    journey.wait("watch", "two.json: the provider has")
    print(journey.read("watch"), end="")


def play(journey: Journey) -> None:
    """Play the journey."""
    (journey.folder / "make.py").write_text(take_script("serve.md", "from tokenizers"))
    (journey.folder / "ask.py").write_text(take_script("receipts.md", "import sys"))
    journey.run("python make.py && cp -r checkpoint copy")
    show_testnet(journey)
    addresses = make_net(journey)
    client = addresses["client"]
    show_honest(journey, addresses["provider"], client)
    show_lie(journey, addresses["liar"], client)
    show_watcher(journey, client)


def main() -> None:
    """Play the journey in a folder that goes away."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory() as folder:
        journey = Journey(Path(folder))
        try:
            play(journey)
        finally:
            for name in [*reversed(journey.running)]:
                journey.stop(name)


if __name__ == "__main__":
    main()
