"""Tests of the Client's end."""
