"""The tests of the wire: bytes to typed messages and back."""
