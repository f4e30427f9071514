"""Tests of `acpwire.transcript`."""
