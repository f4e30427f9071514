"""Tests of the Agent's end, by scripted clients."""
