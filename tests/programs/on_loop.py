"""Runs a program or module, as `python` or `python -m` would, on a loop: `on_loop.py LOOP NAME ARGUMENT...`."""

import asyncio.events
import runpy
import sys

import uvloop

loop, name = sys.argv[1:3]
del sys.argv[:2]
if loop == "uvloop":
    asyncio.events.new_event_loop = uvloop.new_event_loop  # a policy would do, too, until Python 3.16
if name.endswith(".py"):
    runpy.run_path(name, run_name="__main__")
else:
    runpy.run_module(name, run_name="__main__", alter_sys=True)
