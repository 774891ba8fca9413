"""trainyard's commands: `invoke --list`. Their flags are in trainyard/cli, their work is in trainyard/commands."""

from __future__ import annotations

from invoke import Collection

from trainyard.cli.housekeeping import bench, check, clean
from trainyard.cli.imaging import build, load, parity, render, verify
from trainyard.cli.inspecting import inventory
from trainyard.cli.locking import list_, lock, plan
from trainyard.cli.proving import sbom
from trainyard.cli.testing import smoke

ns = Collection(
    list_, lock, plan, render, build, smoke, load, verify, parity, sbom, inventory, clean, check, bench
)
