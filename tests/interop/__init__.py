"""Clients of others drive an agent of this library: what they fold is what the agent has said."""
