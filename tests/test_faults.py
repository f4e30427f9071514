"""Known faults of others take away what they explain, and are news themselves where they show no more."""

from __future__ import annotations

import re

from tests.faults import Fault, faults_of, news

ONE, TWO = Fault("a", "A", "one", re.compile("^one")), Fault("b", "B", "two", re.compile("^two"))


def test_faults_that_are_gone_are_news() -> None:
    assert news(["one 1", "three", "one 2", "three"], [ONE, TWO]) == ["three", "B is kept now: two"]
    assert news(["one", "two"], [ONE, TWO]) == []
    assert news([], []) == []


def test_each_peer_has_its_own() -> None:
    assert faults_of("a", (ONE, TWO)) == [ONE]
