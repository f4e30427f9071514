"""Whoever asks and reads no answers is not read for a while, and nobody waits for somebody who waits for him."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import weakref
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpwire import unread, v2
from acpwire.connection import Connection
from acpwire.errors import ConnectionClosed
from acpwire.limits import Limits
from acpwire.peer import Peer
from acpwire.testing import ScriptedPeer
from acpwire.transports import Channel, Transport, pair, spawn_process
from acpwire.transports.descriptors import DescriptorChannel, PolledReader, Writer
from acpwire.unread import Unread
from tests.transports.loops import on_each_loop, until

LIMITS = Limits(unread_answers=50_000, grace=5)
OPTIONS = [v2.PermissionOption(option_id="o", name="n", kind="allow_once")]


def pipes() -> tuple[DescriptorChannel, DescriptorChannel]:
    """Two ends with a pipe each way between them."""
    (a, b), (c, d) = os.pipe(), os.pipe()
    for fd in (a, b, c, d):
        os.set_blocking(fd, False)
    return DescriptorChannel(PolledReader(a), Writer(d), 5), DescriptorChannel(PolledReader(c), Writer(b), 5)


class Outlet:
    """Stands for a channel that is taken from as the test says."""

    def __init__(self) -> None:
        self.unsent = 0


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 300), st.integers(0, 400)), max_size=40))
def test_answers_alone_count_from_when_they_are_given_until_they_are_taken(gives: list[tuple[bool, int, int]]) -> None:
    async def run() -> None:
        outlet = Outlet()
        held = Unread(cast("Channel", outlet), 250, asyncio.get_running_loop(), lambda: None)
        given: list[tuple[int, int]] = []
        end = 0
        for is_answer, size, taken in gives:
            end += size
            given.append((end, size if is_answer else 0))
            outlet.unsent += size
            held.given(size, size if is_answer else 0)
            outlet.unsent -= min(taken, outlet.unsent)
            waiting = sum(answer for at, answer in given if at > end - outlet.unsent)
            assert held.is_too_much() == (outlet.unsent > 250 and waiting > 250)
        held.stop()

    asyncio.run(run())


@pytest.mark.parametrize("between", ["pipes", "memory"])
@pytest.mark.parametrize("what", ["answers", "requests"])
@on_each_loop
async def test_two_that_send_each_other_more_than_is_read_before_it_goes_both_get_it(
    between: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-BP-01, S-BP-02: legal sizes in both directions at once are no deadlock."""
    monkeypatch.setattr(unread, "PATIENCE", 0.05)
    asked, told = ({}, {"x": "x" * 500_000}) if what == "answers" else ({"x": "x" * 500_000}, {})

    async def listed(_: Any) -> v2.ListSessionsResponse:
        return v2.ListSessionsResponse(sessions=[], meta=told)

    async def permitted(_: Any) -> v2.RequestPermissionResponse:
        return v2.RequestPermissionResponse(outcome=v2.CancelledPermissionOutcome(), meta=told)

    left, right = pair() if between == "memory" else pipes()
    question = v2.RequestPermissionRequest(session_id="s", title="t", options=OPTIONS, meta=asked)
    agent = Connection("agent", v2.decode_from_client, v2.METHODS, limits=LIMITS)
    client = Connection("client", v2.decode_from_agent, v2.METHODS, limits=LIMITS)
    async with (
        Peer(left, agent, {v2.SESSION_LIST: listed}) as a,
        Peer(right, client, {v2.SESSION_REQUEST_PERMISSION: permitted}) as c,
    ):
        answers: list[Any] = await asyncio.gather(
            *[c.request(v2.SESSION_LIST, v2.ListSessionsRequest(meta=asked)) for _ in range(10)],
            *[a.request(v2.SESSION_REQUEST_PERMISSION, question) for _ in range(10)],
        )
        assert [answer.meta for answer in answers] == [told] * 20


WRITES_FIRST = """
import sys
line = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":'
line += b'"agent_message_chunk","messageId":"m","content":{"type":"text","text":"hi"}}}}\\n'
sys.stdin.buffer.read(1)
sys.stdout.buffer.write(line * 6000)
sys.stdout.buffer.flush()
sys.stdin.buffer.readline()
sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":0,"result":{"sessions":[]}}\\n')
sys.stdout.buffer.flush()
sys.stdin.buffer.read()
"""


@on_each_loop
async def test_a_peer_that_writes_before_it_reads_is_read_whatever_is_sent_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S-BP-02: what is sent waits for itself alone, and is no answer."""
    monkeypatch.setattr(unread, "PATIENCE", 1_000)
    transport: Transport = await spawn_process(sys.executable, "-c", WRITES_FIRST)
    seen: list[Any] = []
    connection = Connection("client", v2.decode_from_agent, v2.METHODS, limits=LIMITS)
    async with Peer(transport, connection, {v2.SESSION_UPDATE: seen.append}) as peer:
        answer = await peer.request(v2.SESSION_LIST, v2.ListSessionsRequest(meta={"x": "y" * 5_000_000}))
    assert answer.sessions == []
    assert len(seen) == 6000


@on_each_loop
async def test_a_peer_that_takes_its_answers_slowly_is_read_as_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """TR-07: it is waited for as long as it takes anything."""
    monkeypatch.setattr(unread, "PATIENCE", 0.01)
    outlet, changed = Outlet(), asyncio.Event()
    held = Unread(cast("Channel", outlet), 1_000, asyncio.get_running_loop(), changed.set)
    outlet.unsent = 10_000
    held.given(10_000, 10_000)
    for _ in range(20):
        assert held.is_too_much()
        outlet.unsent -= 100
        await changed.wait()
        changed.clear()
    assert held.is_too_much()
    assert not held.is_hopeless
    held.stop()


@on_each_loop
async def test_a_peer_that_asks_for_ever_and_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for it is bounded, and the error says by what."""
    monkeypatch.setattr(unread, "PATIENCE", 0.01)
    left, right = pair()
    connection = Connection("agent", v2.decode_from_client, v2.METHODS, limits=Limits(unread_answers=50_000, grace=0.1))
    async with Peer(left, connection, {}) as agent, ScriptedPeer(right):
        ask = b'{"jsonrpc":"2.0","id":"x","method":"no/such"}\n' * 100
        most = 0
        while agent.closed is None:
            if right.unsent < 10_000:
                right.send(ask)
            most = max(most, left.unsent)
            await asyncio.sleep(0)
        assert "Limits.unread_answers = 50000" in str(agent.closed)
        assert most < 50_000 * (unread.TIMES + 3)


@on_each_loop
async def test_who_has_taken_all_is_waited_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "PATIENCE", 0.01)
    outlet, changed = Outlet(), asyncio.Event()
    held = Unread(cast("Channel", outlet), 1_000, asyncio.get_running_loop(), changed.set)

    def give(size: int) -> None:
        outlet.unsent += size
        held.given(size, size)

    give(10_000)
    assert held.is_too_much()
    await changed.wait()
    assert not held.is_too_much(), "it was given way to"
    outlet.unsent = 0
    assert not held.is_too_much()
    give(1_001)
    assert held.is_too_much()
    held.stop()


@on_each_loop
async def test_nobody_is_given_way_to_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the connection is left that waits."""
    monkeypatch.setattr(unread, "PATIENCE", 1_000)

    async def ended() -> weakref.ref[Peer]:
        left, right = pair()
        limits = Limits(unread_answers=1_000, grace=0.1)
        connection = Connection("agent", v2.decode_from_client, v2.METHODS, limits=limits)
        async with Peer(left, connection, {}) as agent:
            right.send(b'{"jsonrpc":"2.0","id":"x","method":"no/such"}\n' * 100)
            await until(lambda: left.unsent > 8_000)
            for _ in range(20):
                await asyncio.sleep(0)
        assert isinstance(agent.closed, ConnectionClosed)
        await right.close()
        return weakref.ref(agent)

    agent = await ended()
    gc.collect()
    assert agent() is None
